"""The versions of optional dependencies that the package supports."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from django_agent_sessions.exceptions import ConfigurationError


def require_version(distribution: str, minimum: str, *, extra: str) -> None:
    """Raise ``ConfigurationError`` if an older version of a distribution is installed.

    A version that is too new is refused by the package's metadata only, so that it can be tried.
    """
    try:
        installed = version(distribution)
    except PackageNotFoundError:
        # The module is another distribution's, of which nothing is known.
        return
    if _release(installed) < _release(minimum):
        raise ConfigurationError(
            f"{distribution} {installed} is installed, and {minimum} or newer is required. Install "
            f'it with: pip install --upgrade "django-agent-sessions[{extra}]"'
        )


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without its pre-release or local part."""
    numbers = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in numbers[0].split(".")) if numbers else ()
