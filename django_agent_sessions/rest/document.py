"""The OpenAPI document: its head, and drf-spectacular's settings for it.

The API serves it at ``schema/``. Where ``drf_spectacular`` is among the installed apps, this
writes it::

    python manage.py spectacular --custom-settings django_agent_sessions.rest.document.DOCUMENT
"""

from __future__ import annotations

from typing import Any

_ABOUT = """\
Conversations with AI agents, whatever framework they were made with: one's own, and nobody
else's. What is not yours answers as what does not exist.

* Lists come in pages. `next` and `previous` are the addresses of the pages beside; nothing is
  counted.
* Moments are in UTC with milliseconds, such as `2026-01-02T03:04:05.678Z`.
* Errors are problem details (`application/problem+json`): `detail` says what to do, `errors`
  what is wrong with which field, and never what was said in a conversation.
* A body that has a field which is not described here is refused.
"""

DOCUMENT: dict[str, Any] = {
    "TITLE": "Agent sessions",
    "DESCRIPTION": _ABOUT,
    "VERSION": "1",
    "PREPROCESSING_HOOKS": ["django_agent_sessions.rest.schema.only_sessions"],
    # Values of an enum stand where they are, and are their own explanation.
    "POSTPROCESSING_HOOKS": [],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "TAGS": [
        {"name": "Sessions", "description": "Conversations: find, make, change, export, delete."},
        {"name": "Messages", "description": "What was said, in parts that are alike for all SDKs."},
        {"name": "Agents", "description": "Who took part: agents and their orchestrators."},
        {"name": "Branches", "description": "Go back in time, and to what was left behind."},
        {"name": "Redaction", "description": "Take something out for good, with a reason."},
    ],
}
"""The settings, for ``SpectacularAPIView`` and the command ``spectacular``."""
