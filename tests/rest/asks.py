"""Every route × method of the API: what it needs, shows and records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django_agent_sessions.models.permissions import SessionPermission

from .planted import (
    COMMENT,
    IMAGE,
    INTERNAL,
    METHODS,
    READER_KEY,
    REVIEW,
    SAID,
    STATES,
)

VIEW, READ = SessionPermission.VIEW, SessionPermission.READ
ADD, CHANGE, DELETE = SessionPermission.ADD, SessionPermission.CHANGE, SessionPermission.DELETE
REDACT = SessionPermission.REDACT
RATE, SHARE = SessionPermission.RATE, SessionPermission.SHARE
EXPORT, STATE = SessionPermission.EXPORT, SessionPermission.VIEW_STATE
EVERY = frozenset(SessionPermission)
NONE: frozenset[SessionPermission] = frozenset()
ENOUGH = frozenset({VIEW, READ})
"""What opens other people's sessions for reading."""

OPEN_TO_ALL = {"schema/"}
"""What is the same for everybody, because there is nothing of anybody in it."""


BY_LINK = {
    "shared/<str:token>/",
    "shared/<str:token>/messages/<agent_sessions_uuid:message>/media/",
}
"""What whoever has a link is shown, logged in or not."""

STREAMS = {"sessions/<agent_sessions_uuid:session>/events/"}
"""What does not end by itself; who is let in is tried below, and what is sent beside the stream."""


@dataclass(frozen=True)
class Ask:
    """A request, and what is to become of it."""

    route: str
    method: str
    answer: int = 200
    needs: frozenset[SessionPermission] = NONE
    """What others need beside ``scope=all`` and enough for reading."""

    owner_needs: frozenset[SessionPermission] = NONE
    shows: tuple[str, ...] = ()
    """The secrets that whoever is let in is shown."""

    shows_states: tuple[str, ...] = ()
    """Those shown in addition to whoever has ``view_sessionagent``."""

    shows_others: tuple[str, ...] = ()
    """Those shown in addition to whoever is let in and is not the owner."""

    recorded: tuple[str, ...] = ()
    """What is recorded of others than the owner."""

    of_owners: tuple[str, ...] = ()
    of_everybody: bool = False
    """Whether the request is about no session of anybody in particular."""

    scoped: bool = True
    """Whether ``scope=all`` means anything to it."""

    writes: bool = False
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    message: int = 0

    @property
    def name(self) -> str:
        said = {**dict(self.query), **(self.body or {})}
        return "-".join([self.method, self.route, *map(str, said)])


def needs(*allowed: SessionPermission) -> frozenset[SessionPermission]:
    return frozenset(allowed)


SESSION, MESSAGE = (
    "sessions/<agent_sessions_uuid:session>/",
    "messages/<agent_sessions_uuid:message>/",
)
AGENT = "agents/<agent_sessions_uuid:agent_key>/"
BRANCHES, SNAPSHOTS = f"{AGENT}branches/", f"{AGENT}snapshots/"
BRANCH = f"{BRANCHES}<agent_sessions_branch:number>/"
FEEDBACK = f"{SESSION}feedback/"
PARTICIPANTS, LINKS = f"{SESSION}participants/", f"{SESSION}links/"
READING = ("read",)
ASKS = [
    Ask("schema/", "get", of_everybody=True, scoped=False),
    # The list, and a new session of one's own.
    Ask("sessions/", "get", shows=("plantedtitle",), recorded=READING, of_everybody=True),
    Ask(
        "sessions/",
        "get",
        query=(("q", "plantedtext"),),
        shows=("plantedtitle",),
        recorded=("searched",),
        of_everybody=True,
    ),
    Ask("sessions/", "post", 201, body={}, writes=True, of_everybody=True),
    # A session.
    Ask(
        SESSION,
        "get",
        shows=("plantedtitle", "plantedmetadata", "plantedtext"),
        recorded=READING,
    ),
    Ask(
        SESSION,
        "patch",
        body={"archived": True},
        needs=needs(CHANGE),
        shows=("plantedtitle", "plantedmetadata", "plantedtext"),
        recorded=READING,
        writes=True,
    ),
    Ask(
        SESSION,
        "delete",
        204,
        needs=needs(DELETE),
        recorded=("deleted",),
        of_owners=("deleted",),
        writes=True,
    ),
    Ask(f"{SESSION}usage/", "get", recorded=READING),
    Ask(
        f"{SESSION}export/",
        "get",
        needs=needs(EXPORT),
        shows=("plantedtitle", *SAID, COMMENT),
        shows_others=(REVIEW,),
        recorded=("exported",),
        of_owners=("exported",),
    ),
    Ask(
        f"{SESSION}export/",
        "get",
        query=(("as", "jsonl"),),
        needs=needs(EXPORT),
        shows=("plantedtitle", "plantedmetadata", *SAID, COMMENT),
        shows_states=(*STATES, INTERNAL),
        shows_others=(REVIEW,),
        recorded=("exported",),
        of_owners=("exported",),
    ),
    Ask(
        f"{SESSION}redact/",
        "post",
        body={"find": "planted", "dry_run": True},
        needs=needs(REDACT),
        shows=("plantedtitle", "plantedmetadata", *SAID, COMMENT),
        shows_states=(*STATES, INTERNAL),
        shows_others=(REVIEW,),
        recorded=READING,
    ),
    Ask(
        f"{SESSION}redact/",
        "post",
        body={"find": "plantedtool", "reason": "a ticket"},
        needs=needs(REDACT),
        recorded=("read", "redacted"),
        of_owners=("redacted",),
        writes=True,
    ),
    # What people think of it.
    Ask(FEEDBACK, "get", shows=(COMMENT,), shows_others=(REVIEW,), recorded=READING),
    Ask(
        f"{MESSAGE}feedback/",
        "put",
        body={"value": 1},
        message=1,
        needs=needs(RATE),
        recorded=READING,
        writes=True,
    ),
    Ask(f"{MESSAGE}feedback/", "put", 400, body={"value": 2}, message=1, needs=needs(RATE)),
    Ask(
        f"{MESSAGE}feedback/",
        "delete",
        204,
        message=1,
        needs=needs(RATE),
        writes=True,
    ),
    # Who else takes part in it.
    Ask(PARTICIPANTS, "get", needs=needs(SHARE), recorded=READING),
    Ask(
        PARTICIPANTS,
        "post",
        body={"user": str(READER_KEY), "role": "writer"},
        needs=needs(SHARE),
        recorded=("participant_added",),
        of_owners=("participant_added",),
        writes=True,
    ),
    Ask(PARTICIPANTS, "post", 400, body={"user": "0", "role": "reader"}, needs=needs(SHARE)),
    Ask(
        f"{PARTICIPANTS}<agent_sessions_uuid:participant>/",
        "delete",
        204,
        needs=needs(SHARE),
        recorded=("participant_removed",),
        of_owners=("participant_removed",),
        writes=True,
    ),
    Ask(LINKS, "get", needs=needs(SHARE), recorded=READING),
    Ask(
        LINKS,
        "post",
        201,
        body={"seconds": 60},
        needs=needs(SHARE),
        recorded=("link_created",),
        of_owners=("link_created",),
        writes=True,
    ),
    Ask(
        f"{LINKS}<agent_sessions_uuid:link>/",
        "delete",
        204,
        needs=needs(SHARE),
        recorded=("link_revoked",),
        of_owners=("link_revoked",),
        writes=True,
    ),
    # Going back in time.
    Ask(
        f"{SESSION}fork/",
        "post",
        201,
        body={},
        needs=needs(ADD, CHANGE),
        shows=("plantedtitle", "plantedmetadata", "plantedtext"),
        recorded=("forked",),
        of_owners=("forked",),
        writes=True,
    ),
    Ask(
        f"{AGENT}rewind/",
        "post",
        body={"to": 0},
        needs=needs(CHANGE),
        recorded=("rewound",),
        of_owners=("rewound",),
        writes=True,
    ),
    Ask(BRANCHES, "get", recorded=READING),
    Ask(BRANCHES, "post", 201, body={}, needs=needs(CHANGE), recorded=READING, writes=True),
    Ask(f"{BRANCHES}compare/", "get", query=(("right", "1"),), recorded=READING),
    Ask(BRANCH, "get", recorded=READING),
    Ask(
        BRANCH,
        "delete",
        204,
        needs=needs(CHANGE, DELETE),
        recorded=("branch_deleted",),
        of_owners=("branch_deleted",),
        writes=True,
    ),
    Ask(
        f"{BRANCH}switch/",
        "post",
        needs=needs(CHANGE),
        recorded=("restored",),
        of_owners=("restored",),
        writes=True,
    ),
    Ask(f"{BRANCH}messages/", "get", shows=SAID, recorded=READING),
    Ask(f"{BRANCH}messages/", "get", query=(("raw", "true"),), shows=SAID, recorded=READING),
    Ask(SNAPSHOTS, "get", recorded=READING),
    Ask(SNAPSHOTS, "post", 201, needs=needs(CHANGE), recorded=READING, writes=True),
    Ask(
        f"{SNAPSHOTS}<agent_sessions_uuid:snapshot>/restore/",
        "post",
        needs=needs(CHANGE),
        recorded=("restored",),
        of_owners=("restored",),
        writes=True,
    ),
    # Agents and orchestrators.
    Ask(f"{SESSION}agents/", "get", recorded=READING),
    Ask(
        f"{SESSION}agents/<agent_sessions_text:agent>/",
        "get",
        shows_states=("plantedstate", "plantedsummary"),
        recorded=READING,
    ),
    Ask(f"{SESSION}multi-agents/", "get", recorded=READING),
    Ask(
        f"{SESSION}multi-agents/<agent_sessions_text:multi_agent>/",
        "get",
        shows_states=("plantednode",),
        recorded=READING,
    ),
    # What was said.
    Ask(f"{SESSION}messages/", "get", shows=SAID, recorded=READING),
    Ask(f"{SESSION}messages/", "get", query=(("raw", "true"),), shows=SAID, recorded=READING),
    Ask(MESSAGE, "get", shows=("plantedtext",), recorded=READING),
    Ask(MESSAGE, "get", query=(("raw", "true"),), message=3, recorded=READING),
    Ask(f"{MESSAGE}media/", "get", query=(("path", IMAGE),), recorded=READING),
    Ask(
        f"{MESSAGE}redact/",
        "post",
        body={"find": "plantedtext", "dry_run": True},
        needs=needs(REDACT),
        shows=("plantedtext",),
        recorded=READING,
    ),
    Ask(
        f"{MESSAGE}redact/",
        "post",
        body={"reason": "a ticket"},
        needs=needs(REDACT),
        recorded=("read", "redacted"),
        of_owners=("redacted",),
        writes=True,
    ),
]


def all_methods() -> list[Ask]:
    """Adds HEAD, which is GET without a body; OPTIONS, and what a route does not have."""
    asks = list(ASKS)
    for route in dict.fromkeys(one.route for one in ASKS):
        given = {one.method: one for one in reversed(ASKS) if one.route == route}
        for method in METHODS:
            if method in given:
                continue
            if method == "head" and "get" in given:
                head = replace(given["get"], method="head", shows=(), shows_states=())
                asks.append(replace(head, shows_others=()))
            elif method == "options":
                asks.append(Ask(route, method, of_everybody=True, scoped=False))
            else:
                asks.append(Ask(route, method, 405, of_everybody=True, scoped=False))
    return asks


EVERY_ASK = all_methods()
ABOUT_SOMETHING = [one for one in EVERY_ASK if one.answer != 405 and one.method != "options"]
