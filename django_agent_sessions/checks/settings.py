"""System checks of ``AGENT_SESSIONS``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from inspect import isroutine
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as CheckWarning
from django.db import connections
from django.utils.module_loading import import_string

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models.lifetimes import Lifetimes
from django_agent_sessions.values.chosen_classes import load_class

_Check = Callable[..., list[CheckMessage]]


def requires_valid(*keys: str) -> Callable[[_Check], _Check]:
    """Skip a check if one of the keys that it reads is invalid, which ``E001`` reports.

    Invalid values of other keys do not skip it, so that all problems are reported at once.
    """

    def decorated(check: _Check) -> _Check:
        @functools.wraps(check)
        def checked(
            app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
        ) -> list[CheckMessage]:
            return check(app_configs, **kwargs) if conf.are_valid(*keys) else []

        return checked

    return decorated


@register
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check ``AGENT_SESSIONS`` for unknown keys, wrong types and unknown aliases."""
    problems: list[CheckMessage] = [
        Error(message, hint=hint, id="agent_sessions.E001")
        for message, hint in conf.problems(conf.raw_settings())
    ]
    for key in filter(conf.are_valid, ("DATABASE", "LISTEN_DATABASE")):
        alias = getattr(conf.get_settings(), key)
        # An empty DATABASE asks the routers, like None; the other keys must name an alias.
        if key == "DATABASE" and not alias:
            continue
        if alias is not None and alias not in connections:
            problems.append(
                Error(
                    f"AGENT_SESSIONS[{key!r}] is {alias!r}, which is not an alias in DATABASES",
                    hint=f"The aliases in DATABASES are: {', '.join(sorted(connections))}.",
                    id="agent_sessions.E002",
                )
            )
    return problems


@register
@requires_valid("DETECTORS", "REDACT_ON_WRITE")
def check_detectors(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the configured detectors exist, so that no write fails because of them."""
    try:
        # Imported here because compiling their patterns would slow down every start of Django.
        from django_agent_sessions.content import detectors

        detectors.names()
        detectors.load(conf.get_settings().REDACT_ON_WRITE)
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="See AGENT_SESSIONS['DETECTORS'] and AGENT_SESSIONS['REDACT_ON_WRITE'].",
                id="agent_sessions.E003",
            )
        ]
    return []


@register
@requires_valid("REASON_REQUIRED")
def check_reasons(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the actions that require a reason exist."""
    from django_agent_sessions.governance import reasons

    names = sorted(reasons.ACTIONS)
    return [
        Error(
            f"AGENT_SESSIONS['REASON_REQUIRED'] has {name!r}, which is no action with a reason",
            hint=f"The actions are: {', '.join(names)}.",
            id="agent_sessions.E012",
        )
        for name in conf.get_settings().REASON_REQUIRED
        if name not in names
    ]


@register
@requires_valid("RETENTION")
def check_retention(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the lifetimes, so that a typing error does not fail the job at night."""
    try:
        Lifetimes.from_settings()
    except ConfigurationError as error:
        return [Error(str(error), hint=_RETENTION_HINT, id="agent_sessions.E013")]
    return []


_RETENTION_HINT = (
    'A valid value is {"SESSIONS": {"*": {"IDLE": timedelta(days=365)}}, "AUDIT_EVENTS": '
    'timedelta(days=1095), "USAGE": timedelta(days=1095)}.'
)


@register
@requires_valid("DIALECTS")
def check_dialects(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the configured message formats exist; without them transcripts show JSON."""
    from django_agent_sessions.content import dialects

    problems: list[CheckMessage] = []
    for path in conf.get_settings().DIALECTS:
        try:
            dialects.load(path)
        except Exception as error:
            problems.append(
                Error(
                    f"AGENT_SESSIONS['DIALECTS'] has {path!r}, which cannot be loaded: {error}",
                    hint="Set it to the dotted paths of subclasses of "
                    "django_agent_sessions.content.dialects.Dialect.",
                    id="agent_sessions.E009",
                )
            )
    return problems


@register
@requires_valid("ACCESS")
def check_access(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that ``ACCESS`` is an access rule: until then every page of sessions fails.

    A method with a misspelled name is never called, so the default decides.
    """
    # Imported here because it imports the models.
    from django_agent_sessions.models.access import AccessRule, ObjectPermissions, access_rule

    try:
        rule = access_rule(conf.get_settings().ACCESS)
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Set it to the dotted path of a subclass of "
                "django_agent_sessions.models.access.AccessRule.",
                id="agent_sessions.E010",
            )
        ]
    base = ObjectPermissions if issubclass(rule, ObjectPermissions) else AccessRule
    # A mixin that is no rule may have methods of its own.
    rules = [each for each in rule.__mro__ if issubclass(each, AccessRule)]
    methods = {name for each in rules for name, value in vars(each).items() if isroutine(value)}
    return [
        CheckWarning(
            f"AGENT_SESSIONS['ACCESS']: {rule.__qualname__} has a method {name!r}, which is never "
            "called",
            hint="Correct its name. Let the name of a method of your own begin with an underscore.",
            id="agent_sessions.W026",
        )
        for name in sorted(methods)
        if not name.startswith("_") and not hasattr(base, name)
    ]


@register
@requires_valid("SESSION_ADMIN", "ROUTER", "SESSION_SERIALIZER", "SESSION_ROW_SERIALIZER")
def check_classes(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the classes that the project chooses for the admin and the API."""
    problems: list[CheckMessage] = []
    for key, base in _CLASSES.items():
        path = getattr(conf.get_settings(), key)
        if path is None:
            continue
        try:
            load_class(key, path, import_string(base))
        except ConfigurationError as error:
            hint = f"Set it to the dotted path of a subclass of {base}."
            problems.append(Error(str(error), hint=hint, id="agent_sessions.E016"))
    return problems


# Imported only if the setting has a value: the API needs an extra.
_CLASSES = {
    "SESSION_ADMIN": "django_agent_sessions.admin.SessionAdmin",
    "ROUTER": "django_agent_sessions.rest.routers.SessionRouter",
    "SESSION_SERIALIZER": "django_agent_sessions.rest.serializers.SessionSerializer",
    "SESSION_ROW_SERIALIZER": "django_agent_sessions.rest.serializers.SessionRowSerializer",
}


@register
@requires_valid("CONNECTION_SETUP")
def check_connection_setup(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that ``CONNECTION_SETUP`` can be imported: only some calls would fail without it."""
    try:
        bridge.connection_setup()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Set it to the dotted path of a callable that takes a connection and returns "
                'a context manager, such as "project.tenants.as_tenant".',
                id="agent_sessions.E006",
            )
        ]
    return []


@register
@requires_valid("ENCRYPTION", "DATABASE")
def check_encryption(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the options and the master keys of the encryption."""
    options = conf.get_settings().ENCRYPTION
    if options is None:
        return []
    problems: list[CheckMessage] = []
    try:
        # Imported here because it needs the extra.
        from django_agent_sessions.encryption import master_keys, options_problem

        if problem := options_problem(options):
            raise ConfigurationError(problem)
        master_keys.load(options.get("KEYS"))
        importlib.import_module("django_agent_sessions.encryption.envelope")
    except ConfigurationError as error:
        problems.append(Error(str(error), hint=_SEE_ENCRYPTION, id="agent_sessions.E014"))
    alias = options.get("KEY_DATABASE")
    if alias is None or alias == bridge.database():
        problems.append(
            CheckWarning(
                "the data keys are in the database of the sessions: a backup of it contains both, "
                "so destroying the key of an erased user does not reach the backup",
                hint="Set AGENT_SESSIONS['ENCRYPTION']['KEY_DATABASE'] to the alias of a database "
                "whose backups are kept for a shorter time, or silence this check.",
                id="agent_sessions.W014",
            )
        )
    elif alias in connections and connections[alias].settings_dict["ATOMIC_REQUESTS"]:
        problems.append(
            Error(
                f"the database of the data keys, {alias!r}, has ATOMIC_REQUESTS: a failed request "
                "would roll back a key by which content of the other database is encrypted",
                hint=f"Remove ATOMIC_REQUESTS from DATABASES[{alias!r}].",
                id="agent_sessions.E015",
            )
        )
    return problems


_SEE_ENCRYPTION = "See AGENT_SESSIONS['ENCRYPTION'] in the documentation of the settings."
