r"""drf-spectacular's settings for the OpenAPI document of the API.

The API serves the document at ``schema/``. If ``drf_spectacular`` is an installed app, this
command writes it::

    python manage.py spectacular \
        --custom-settings django_agent_sessions.rest.openapi_settings.DOCUMENT
"""

from __future__ import annotations

from typing import Any

_DESCRIPTION = """\
The user's own conversations with AI agents, whatever agent framework wrote them. The API
treats a session of another user as one that does not exist.

* Lists are paginated. `next` and `previous` are the URLs of the neighboring pages; there is no
  total count.
* Timestamps are in UTC with milliseconds, such as `2026-01-02T03:04:05.678Z`.
* Errors are problem details (`application/problem+json`): `detail` says what to do, `errors`
  which field is wrong and why. Errors never contain message text.
* A request body with a field that is not described here is rejected.
"""

DOCUMENT: dict[str, Any] = {
    "TITLE": "Agent sessions",
    "DESCRIPTION": _DESCRIPTION,
    "VERSION": "1",
    "PREPROCESSING_HOOKS": ["django_agent_sessions.rest.schema.keep_session_views"],
    # Enum values stay inline: they explain themselves.
    "POSTPROCESSING_HOOKS": [],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "TAGS": [
        {"name": "Sessions", "description": "List, create, change, export and delete sessions."},
        {"name": "Messages", "description": "Messages as parts that are the same for all SDKs."},
        {"name": "Agents", "description": "Agents and orchestrators of a session."},
        {"name": "Branches", "description": "Rewinds, branches, snapshots and forks."},
        {"name": "Redaction", "description": "Remove content permanently, with a reason."},
    ],
}
"""Custom settings for ``SpectacularAPIView`` and the command ``spectacular``."""
