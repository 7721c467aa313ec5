"""Where Chromium is, and how it is started."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    # In a container Chromium runs as root, where its sandbox does not start.
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Text looks the same on every machine, or nearly.
    "--font-render-hinting=none",
    "--hide-scrollbars",
)


def executable() -> str | None:
    """Finds Chromium: what ``CHROMIUM`` names, or the first that is installed."""
    if named := os.environ.get("CHROMIUM"):
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str | None:
    """Says what is missing for the browser's tests to run, if anything is."""
    for module in ("playwright", "axe_playwright_python"):
        if find_spec(module) is None:
            return f"the Python package {module} is not installed"
    if executable() is None:
        return "Chromium was not found; install it, or name it in CHROMIUM"
    return None
