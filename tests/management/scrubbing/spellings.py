"""A secret in every spelling and file that a redaction finds, to be looked for in bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing.leaks import database_bytes
from tests.governance.redaction.planted_spellings import FILES, SECRET, TEXTS, UNREAD

FORMS = {name: spell(SECRET) for name, spell in TEXTS.items()}


def plant_every_spelling() -> UUID:
    """Plant the secret in all forms, and return the session's key."""
    store = SessionStore()
    session = store.open("spellings")
    agent = store.agents.open(session, dialect="strands")
    texts: list[Any] = [{"text": f"it is {text} here"} for text in FORMS.values()]
    files: list[Any] = [
        {"document": {"format": "pdf", "name": "a", "source": {"bytes": data}}}
        for data in (*(make(SECRET) for make in FILES.values()), *UNREAD.values())
    ]
    store.append_many(agent, [{"role": "user", "content": [part]} for part in (*texts, *files)])
    return session.id


def forms_in(directory: Path) -> set[str]:
    """Return the forms that a file below a directory has, as they are or as JSON has them."""
    found = set()
    for path in filter(Path.is_file, directory.rglob("*")):
        data = database_bytes(path) if ".sqlite3" in path.name else path.read_bytes()
        for name, text in FORMS.items():
            written = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
            if any(form.encode() in data for form in written):
                found.add(name)
    return found
