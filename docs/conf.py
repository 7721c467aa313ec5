"""Sphinx's configuration: pages in MyST, reference from the docstrings, furo's look."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django

import django_agent_sessions

# autodoc imports the models, which needs settings; the test project's are enough.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

project = "django-agent-sessions"
author = "django-agent-sessions contributors"
copyright = "2026, django-agent-sessions contributors"
release = django_agent_sessions.__version__
version = release

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "generated_reference",
]
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_search_scorer = str(Path(__file__).parent / "_ext/search_scores.js")
html_title = f"django-agent-sessions {release}"

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
