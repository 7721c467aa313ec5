"""The OpenAPI document of the test project, as ``openapi.json`` beside this module has it.

``.venv/bin/python -m tests.rest.openapi`` writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")


def document() -> dict[str, Any]:
    """Makes the document."""
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.settings import patched_settings

    from django_agent_sessions.rest.schema import DOCUMENT

    with patched_settings(DOCUMENT):
        generator: Any = SchemaGenerator(urlconf="tests.urls")
        made: dict[str, Any] = generator.get_schema(request=None, public=True)
    return made


def written(made: dict[str, Any]) -> str:
    """Writes a document as the file has it."""
    return json.dumps(made, indent=1, ensure_ascii=False, default=str) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    FILE.write_text(written(document()), encoding="utf-8")
