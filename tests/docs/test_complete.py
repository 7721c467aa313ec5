"""The reference has an entry for everything that is public, and every link leads somewhere."""

from __future__ import annotations

import ast
import importlib
import inspect
import posixpath
import re
from dataclasses import fields
from typing import Any
from urllib.parse import unquote

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.dispatch import Signal

import django_agent_sessions
from django_agent_sessions import conf, exceptions, signals
from django_agent_sessions.models.permissions import SessionPermission
from tests.processes import ROOT

from .site import Site

# The first test waits for the site.
pytestmark = pytest.mark.timeout(600)

PACKAGE = "django_agent_sessions"
PAGES = [one for one in (ROOT / "docs").rglob("*.md") if "_build" not in one.parts]
PUBLIC = re.findall(
    rf"^\| `({PACKAGE}[\w.]*)` \|", (ROOT / "docs/reference/index.md").read_text(), re.MULTILINE
)


# Exported for other packages of this app; a project has no use for them.
INTERNAL = {
    "content.detectors": {"MatchTuple"},
    "content.dialects": {
        *("ASSISTANT_UI", "EMPTY_SUMMARY", "OPENAI", "STRANDS", "STRANDS_NODE", "TEXT_CAP"),
        *("NodePath", "UnknownDialect", "client_written", "configure", "labels", "load"),
        *("node_messages", "vocabulary"),
    },
    "governance.redaction": {"request_budget"},
    "models": {"SessionRelated", "cascade_unless_held"},
    "store": {"AppendSteps", "arun_steps", "run_steps", "session_record"},
    "telemetry": {"start_recording", "stop_recording"},
}


def has_entry(site: Site, module: str, name: str) -> bool:
    """Whether the reference describes this object, under whatever module it names."""
    value = getattr(importlib.import_module(module), name)
    entries = [one for one in site.objects["py"] if one.rpartition(".")[2] == name]
    return any(found(entry) is value for entry in entries)


def found(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:  # a member of a class
        return None


def test_every_public_name_has_an_entry(site) -> None:
    missing = [
        f"{module}.{name}"
        for module in PUBLIC
        for name in getattr(importlib.import_module(module), "__all__", ())
        if name not in INTERNAL.get(module.partition(".")[2], ())
        if not has_entry(site, module, name)
    ]

    assert not missing
    assert len(PUBLIC) > 10


def test_whatever_an_example_imports_has_an_entry(site) -> None:
    missing = set()
    for page in [*PAGES, ROOT / "README.md"]:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            for module, name in imports(block):
                if not is_module(f"{module}.{name}") and not has_entry(site, module, name):
                    missing.add(f"{module}.{name} ({page.name})")

    assert not missing


def imports(block: str) -> list[tuple[str, str]]:
    try:
        tree = ast.parse(block)
    except SyntaxError:  # an excerpt
        return []
    return [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE)
        for alias in node.names
        if node.module
    ]


def is_module(dotted: str) -> bool:
    try:
        return bool(importlib.import_module(dotted))
    except ImportError:
        return False


def test_every_setting_has_an_entry_with_its_default(site) -> None:
    names = {field.name for field in fields(conf.AgentSessionsSettings)}
    page = (site.folder / "reference/settings.html").read_text()

    assert site.objects["setting"] == names
    assert page.count("Default: ") == len(names)


def test_every_error_has_an_entry(site) -> None:
    missing = [
        name
        for name, kind in vars(exceptions).items()
        if inspect.isclass(kind)
        and issubclass(kind, exceptions.AgentSessionsError)
        and f"{exceptions.__name__}.{name}" not in site.objects["py"]
    ]

    assert not missing


def test_every_signal_has_an_entry(site) -> None:
    names = {name for name, value in vars(signals).items() if isinstance(value, Signal)}

    assert {f"{signals.__name__}.{name}" for name in names} <= site.objects["py"]


def test_every_system_check_has_an_entry(site) -> None:
    source = "".join(path.read_text() for path in (ROOT / PACKAGE / "checks").rglob("*.py"))

    ids = re.findall(r'"(?:agent_sessions\.)?([EW]\d+)"', source)

    assert {f"agent_sessions.{one}" for one in ids} == site.objects["check"]


def test_every_permission_has_an_entry(site) -> None:
    named = {f"agent_sessions.{one}" for one in SessionPermission}
    own = {
        f"agent_sessions.{codename}"
        for model in apps.get_app_config("agent_sessions").get_models()
        for codename, _ in model._meta.permissions
    }

    assert named == site.objects["permission"]
    assert own <= named


def test_every_command_and_option_has_an_entry(site) -> None:
    base = {one.dest for one in BaseCommand().create_parser("", "")._actions}
    commands = {name for name, app in get_commands().items() if PACKAGE in str(app)}
    options = {
        f"{name}.{option}"
        for name in commands
        for action in load_command_class(PACKAGE, name).create_parser("", name)._actions
        if action.dest not in base
        for option in action.option_strings
    }

    assert commands == site.objects["django-command"]
    assert options <= site.objects["cmdoption"]


def test_every_model_and_field_has_an_entry(site) -> None:
    names = set()
    for model in apps.get_app_config("agent_sessions").get_models():
        dotted = f"{PACKAGE}.models.{model.__name__}"
        names.add(dotted)
        names |= {
            f"{dotted}.{field.name}" for field in model._meta.fields if not field.auto_created
        }

    assert not names - site.objects["py"]


def test_every_url_has_an_entry(site) -> None:
    from django_agent_sessions.rest import urls

    names = {f"{urls.app_name}:{name}" for name in url_names(urls.urlpatterns)}
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == "agent_sessions":
            own = url_names(admin.ModelAdmin(model, admin.site).get_urls())
            names |= {f"admin:{name}" for name in url_names(model_admin.get_urls()) - own}

    assert names == site.objects["url-name"]


def test_every_url_has_a_description(site) -> None:
    page = (site.folder / "reference/urls.html").read_text()
    bare = [
        name
        for name, body in re.findall(r'<dt [^>]*id="([^"]+)">.*?<dd>(.*?)</dd>', page, re.DOTALL)
        for _path, *texts in [re.findall(r"<p>(.*?)</p>", body, re.DOTALL)]
        if not texts or any(re.sub("<.*?>", "", text).endswith((":", ": ")) for text in texts)
    ]

    assert not bare


def url_names(patterns: Any) -> set[str]:
    return {pattern.name for pattern in patterns if pattern.name}


def test_the_main_classes_are_in_the_index(site) -> None:
    index = (site.folder / "genindex.html").read_text()

    for name in (*django_agent_sessions.__all__, "DjangoSession", "DjangoSessionManager"):
        assert re.search(rf">\s*{name}\b", index), name


def test_every_link_of_the_built_site_resolves(site) -> None:
    dead = [
        f"{name}: {target}"
        for name, page in site.pages.items()
        for target in page.targets
        if not re.match(r"[a-z]+:|//", target) and not leads_somewhere(site, name, target)
    ]

    assert not dead


def leads_somewhere(site: Site, page: str, target: str) -> bool:
    path, _, anchor = unquote(target).partition("#")
    path = path.partition("?")[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if anchor and file in site.pages:
        return anchor in site.pages[file].ids
    return (site.folder / file).exists()


def test_every_link_between_files_of_the_repository_resolves() -> None:
    dead = [
        f"{page.name}: {target}"
        for page in (*ROOT.glob("*.md"), *PAGES)
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text())
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]

    assert not dead


def test_no_page_has_the_name_of_a_page_of_sphinx() -> None:
    assert not {"search", "genindex", "modindex"} & {page.stem for page in PAGES}
