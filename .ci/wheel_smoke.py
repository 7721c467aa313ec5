"""Installs the built wheel beside nothing but Django and uses it as a new project would.

``python .ci/wheel_smoke.py dist/*.whl`` checks the wheel's contents against the checkout, makes an
environment of its own in a temporary directory, and there runs itself with ``--inside``: import,
``check``, ``migrate``, the admin's lists, and the adapters' answer to a missing SDK.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "django_agent_sessions"
ALLOWED_DISTRIBUTIONS = {
    *("asgiref", "django", "django-agent-sessions", "sqlparse", "uuid-utils"),
    # Only where Python or the system asks for them.
    *("tzdata", "typing-extensions"),
}
ADAPTERS = {"strands": "strands", "openai_agents": "openai"}


def check_contents(wheel: Path) -> None:
    """Every file of the package is in the wheel: py.typed, templates and translations too."""
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(PACKAGE)}
    tracked = subprocess.run(
        ["git", "ls-files", PACKAGE], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    missing = set(tracked) - inside
    assert f"{PACKAGE}/py.typed" in inside, "py.typed is not in the wheel"
    assert not missing, f"not in the wheel: {sorted(missing)}"
    print(f"contents: {len(inside)} files")


def install_and_run(wheel: Path, uv: str) -> None:
    """Makes the environment and runs the second half in it."""
    with tempfile.TemporaryDirectory(prefix="wheel-smoke-") as directory:
        python = Path(directory, "venv", "bin", "python")
        subprocess.run(
            [uv, "venv", "--quiet", "--python", sys.executable, python.parent.parent], check=True
        )
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", python, wheel.resolve()], check=True
        )
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "DJANGO", "COVERAGE"))
        }
        script = Path(__file__).resolve()
        subprocess.run(
            # -P: the checkout must not be what is imported.
            [python, "-P", "-W", "error", script, "--inside"],
            cwd=directory,
            env=environment,
            check=True,
        )


def check_distributions() -> None:
    """Nothing but Django and what it needs came along."""
    from importlib.metadata import distributions, version

    names = {found.name.lower().replace("_", "-") for found in distributions()}
    assert names <= ALLOWED_DISTRIBUTIONS, f"unexpected: {names - ALLOWED_DISTRIBUTIONS}"
    print(f"installed: Django {version('django')}, Python {sys.version.split()[0]}")


def check_import() -> None:
    """The package comes from the wheel, and importing it does not import Django."""
    import django_agent_sessions

    assert django_agent_sessions.__file__ is not None
    assert "site-packages" in Path(django_agent_sessions.__file__).parts
    assert "django" not in sys.modules
    print(f"import: {django_agent_sessions.__version__}")


def set_up_project() -> None:
    """The smallest project that has the admin, in the current directory."""
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="wheel",
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        STATIC_URL="static/",
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": Path("smoke.sqlite3"),
                # What the app's own check recommends.
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "timeout": 20,
                    "init_command": "PRAGMA journal_mode=WAL;",
                },
            }
        },
        INSTALLED_APPS=[
            *(f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes")),
            *("django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles"),
            PACKAGE,
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
    )
    django.setup()

    from django.contrib import admin
    from django.urls import path

    globals()["urlpatterns"] = [path("admin/", admin.site.urls)]


def check_commands() -> None:
    """``check`` finds nothing, ``migrate`` works, and no migration is missing."""
    from django.core.management import call_command

    call_command("check", fail_level="WARNING", verbosity=0)
    call_command("migrate", verbosity=0)
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    print("check, migrate, makemigrations --check: passed")


def check_admin() -> None:
    """The list of every model of the app answers, with a row in it where rows can be made."""
    from django.apps import apps
    from django.contrib import admin
    from django.contrib.auth import get_user_model
    from django.test import Client
    from django.urls import reverse

    models = [
        model
        for model in apps.get_app_config("agent_sessions").get_models()
        if admin.site.is_registered(model)
    ]
    assert models, "the admin shows none of the app's models"
    apps.get_model("agent_sessions", "Session").objects.create(session_id="smoke")
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("admin", password="admin"))
    for model in models:
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        answer = client.get(address)
        assert answer.status_code == 200, f"{address}: {answer.status_code}"
    print(f"admin: {', '.join(model.__name__ for model in models)} listed")


def check_adapters() -> None:
    """Importing an adapter without its SDK names the extra that installs it."""
    from importlib import import_module

    from django_agent_sessions.exceptions import MissingDependencyError

    for module, extra in ADAPTERS.items():
        try:
            import_module(f"{PACKAGE}.adapters.{module}")
        except MissingDependencyError as error:
            assert f"django-agent-sessions[{extra}]" in str(error), error
        else:
            raise AssertionError(f"adapters.{module} was imported without its SDK")
    print(f"adapters without their SDK: {', '.join(ADAPTERS)} name their extra")


def main() -> None:
    """Runs one half or the other."""
    if sys.argv[1:] == ["--inside"]:
        check_distributions()
        check_import()
        set_up_project()
        check_commands()
        check_admin()
        check_adapters()
        return
    (wheel,) = map(Path, sys.argv[1:])
    check_contents(wheel)
    install_and_run(wheel, str(Path(sys.executable).parent / "uv"))


if __name__ == "__main__":
    main()
