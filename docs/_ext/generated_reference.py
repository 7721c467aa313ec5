"""Directives that write the reference of what autodoc does not know, from the code itself.

``settings``, ``models``, ``commands``, ``permissions``, ``api-urls`` and ``admin-urls`` list all
there are. ``setting``, ``check``, ``permission``, ``django-command`` and ``url-name`` describe one,
as Sphinx's own ``option`` does: with an anchor, an entry in the index and in ``objects.inv``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import partial
from typing import Any, get_type_hints

from django.apps import apps
from django.contrib import admin
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.urls import URLPattern, URLResolver
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from django_agent_sessions import conf
from django_agent_sessions.models.permissions import SessionPermission

APP = "agent_sessions"
PARAGRAPH = "\n\n"
OBJECTS = {
    "setting": "pair: %s; setting",
    "check": "pair: %s; system check",
    "permission": "pair: %s; permission",
    "django-command": "pair: %s; command",
    "url-name": "pair: %s; URL name",
}


class Generated(SphinxDirective):
    """A directive that is replaced by the reStructuredText that ``lines`` yields."""

    has_content = True
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        # The code may have changed since the last build.
        self.env.note_reread()
        text = "\n".join(self.lines())
        content = StringList(text.splitlines(), source=type(self).__name__)
        node = nodes.Element()
        node.document = self.state.document
        self.state.nested_parse(content, 0, node, match_titles=True)
        return node.children

    def lines(self) -> Iterator[str]:
        raise NotImplementedError


def described(kind: str, name: str, body: Iterable[str]) -> Iterator[str]:
    """Describe an object: the directive, and its body indented."""
    yield f".. {kind}:: {name}"
    yield ""
    for part in body:
        yield from (f"   {line}" for line in inspect.cleandoc(part).splitlines())
        yield ""


def attribute_docs(module: str) -> dict[tuple[str, str], str]:
    """Return the docstrings of attributes, and comments that begin with ``#:``."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {key: "\n".join(lines).strip() for key, lines in found.items()}


class Settings(Generated):
    """Each key of ``AGENT_SESSIONS``: what it must be, its default, and its docstring."""

    def lines(self) -> Iterator[str]:
        kind = conf.AgentSessionsSettings
        docs, hints = attribute_docs(conf.__name__), get_type_hints(kind)
        (tree,) = ast.parse(inspect.getsource(kind)).body
        defaults = {
            ast.unparse(node.target): "{}" if "factory" in ast.unparse(node) else node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign)
        }
        for name in sorted(field.name for field in fields(kind)):
            value = defaults[name]
            default = value if isinstance(value, str) else ast.unparse(value)  # type: ignore[arg-type] # all have one
            kind_of = conf._TYPES[hints[name]]
            facts = f"{kind_of[0].upper()}{kind_of[1:]}. Default: ``{default}``."
            yield from described("setting", name, [facts, docs[kind.__name__, name]])


class Models(Generated):
    """Each model with its fields."""

    def lines(self) -> Iterator[str]:
        for model in sorted(apps.get_app_config(APP).get_models(), key=lambda one: one.__name__):
            docs = attribute_docs(model.__module__)
            yield from described(
                "py:class",
                f"django_agent_sessions.models.{model.__name__}",
                [model.__doc__ or "", f"Table: ``{model._meta.db_table}``."],
            )
            for field in model._meta.get_fields():
                if field.auto_created:
                    continue
                owner = next(k for k in model.__mro__ if field.name in vars(k))
                text = docs.get((owner.__name__, field.name)) or attribute_docs(
                    owner.__module__
                ).get((owner.__name__, field.name), "")
                yield from self.field(field, text)

    def field(self, field: Any, text: str) -> Iterator[str]:
        kind = type(field).__name__
        if field.is_relation:
            kind += f" to {field.related_model.__name__}"
        facts = [kind, *(["may be null"] if field.null else [])]
        if field.choices:
            facts.append("one of " + ", ".join(f"``{value}``" for value, _ in field.choices))
        label = str(field.verbose_name)
        body = f"{label[:1].upper()}{label[1:]}. {text}"
        yield f"   .. py:attribute:: {field.name}"
        yield ""
        yield f"      {'; '.join(facts)}."
        yield from (f"      {line}" for line in body.splitlines())
        yield ""


class Commands(Generated):
    """Each management command with its options."""

    def lines(self) -> Iterator[str]:
        for name in sorted(n for n, app in get_commands().items() if "agent_sessions" in str(app)):
            command = load_command_class("django_agent_sessions", name)
            parser = command.create_parser("manage.py", name)
            yield from described("django-command", name, [command.help])
            yield f".. program:: {name}"
            yield ""
            for action in own_actions(parser):
                yield from self.action(action)

    def action(self, action: argparse.Action) -> Iterator[str]:
        value = "" if action.nargs == 0 else action.metavar or action.dest.upper()
        help_text = (action.help or "").replace("%(default)s", str(action.default))
        choices = action.choices if "database" not in action.dest else None
        if choices and action.metavar is None and action.dest != "storage":
            value = "{" + ",".join(map(str, choices)) + "}"
        names = ", ".join(f"{option} {value}".strip() for option in action.option_strings)
        if not action.option_strings and choices and not help_text:
            help_text = "One of " + ", ".join(map(str, choices)) + "."
        yield from described("option", names or str(value), [help_text])


def own_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments that are not Django's own."""
    base = {one.dest for one in BaseCommand().create_parser("", "")._actions}
    return [one for one in parser._actions if one.dest not in base]


class Permissions(Generated):
    """What each permission allows, as the docstrings in the code say."""

    def lines(self) -> Iterator[str]:
        docs = attribute_docs(SessionPermission.__module__)
        for permission in sorted(SessionPermission, key=lambda one: one.value):
            text = docs[SessionPermission.__name__, permission.name]
            facts = f"``SessionPermission.{permission.name}``"
            yield from described("permission", f"{APP}.{permission}", [text, facts])


def first_paragraph(documented: Any) -> str:
    # Django REST framework's views may have a translated docstring, which is no string.
    text = inspect.cleandoc(str(documented.__doc__ or ""))
    return text.partition(PARAGRAPH)[0]


def patterns(found: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for one in found:
        path = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from patterns(one.url_patterns, path)
        elif one.name:
            yield path, one


class ApiUrls(Generated):
    """Each URL of the API: methods, path and view."""

    def lines(self) -> Iterator[str]:
        from django_agent_sessions.rest import urls

        for path, pattern in patterns(urls.urlpatterns):
            view: Any = pattern.callback
            actions = getattr(view, "actions", None)
            kind = getattr(view, "cls", None) or view.view_class
            found = actions or {m: m for m in kind.http_method_names if hasattr(kind, m)}
            body = [f"``{readable(path)}``"]
            for method, name in found.items():
                if method != "options":
                    text = first_paragraph(getattr(kind, name)) or first_paragraph(kind)
                    body.append(f"``{method.upper()}``: {text}")
            yield from described("url-name", f"{urls.app_name}:{pattern.name}", body)


def readable(path: str) -> str:
    """Return a path with Django's own names of the converters."""
    for own, django in (("uuid", "uuid"), ("text", "str"), ("branch", "int")):
        path = path.replace(f"<{APP}_{own}:", f"<{django}:")
    return path


class AdminUrls(Generated):
    """Each URL of the admin that is not one of Django's own pages of a model."""

    def lines(self) -> Iterator[str]:
        for model, model_admin in admin.site._registry.items():
            if model._meta.app_label != APP:
                continue
            djangos = {one.name for one in admin.ModelAdmin(model, admin.site).get_urls()}
            for path, pattern in patterns(model_admin.get_urls(), f"{model._meta.model_name}/"):
                if pattern.name not in djangos:
                    view = inspect.unwrap(pattern.callback)
                    text = first_paragraph(view.func if isinstance(view, partial) else view)
                    body = [f"``{APP}/{path}``", text]
                    yield from described("url-name", f"admin:{pattern.name}", body)


def setup(app: Sphinx) -> dict[str, Any]:
    for name, index in OBJECTS.items():
        app.add_object_type(name, name, index)
    for name, directive in {
        "settings": Settings,
        "models": Models,
        "commands": Commands,
        "permissions": Permissions,
        "api-urls": ApiUrls,
        "admin-urls": AdminUrls,
    }.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
