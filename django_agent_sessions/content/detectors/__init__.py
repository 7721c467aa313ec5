"""Detection of personal data and credentials in text: addresses, numbers, keys.

Detection is best effort: text that no detector knows is not found. This module is the registry of
the detectors by name.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence

from django.utils.module_loading import import_string

from django_agent_sessions.conf import get_settings
from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError

from .account_numbers import Card, Iban, UsSsn
from .addresses import Email, Ip, Phone
from .credentials import ApiKey, Jwt, PrivateKey
from .detection import Detection, Detector, MatchTuple, detect
from .presidio import Presidio

__all__ = ["Detection", "Detector", "MatchTuple", "available", "detect", "labels", "load", "names"]

# Between two equal matches the first detector wins: the more exact ones come first.
_BUILT_IN: tuple[Detector, ...] = (
    Email(),
    Card(),
    Iban(),
    UsSsn(),
    Phone(),
    Ip(),
    PrivateKey(),
    Jwt(),
    ApiKey(),
)
_PRESIDIO = Presidio()
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def load(names: Sequence[str]) -> list[Detector]:
    """Return detectors by name, each once; raise :exc:`ConfigurationError` for an unknown one."""
    known = _all_detectors()
    found = []
    for name in dict.fromkeys(names):
        if name not in known:
            # A text that cannot be a name may be content that was passed in its place.
            named = f" {name!r}" if _NAME.fullmatch(str(name)) else ""
            raise ConfigurationError(
                f"Unknown detector{named}. Available detectors: {', '.join(known)}."
            )
        detector = known[name]
        _require(detector)
        found.append(detector)
    return found


def available() -> list[Detector]:
    """Return the fast detectors whose packages are installed."""
    return [
        d
        for d in _all_detectors().values()
        if d is not _PRESIDIO and _missing_distribution(d) is None
    ]


def names() -> list[str]:
    """Return the names of all detectors, whether their packages are installed or not."""
    return list(_all_detectors())


def labels() -> dict[str, str]:
    """Return the labels of the installed detectors by name, for forms."""
    detectors = (d for d in _all_detectors().values() if _missing_distribution(d) is None)
    return {d.name: str(getattr(d, "label", d.name)) for d in detectors}


def _all_detectors() -> dict[str, Detector]:
    """Return all detectors; those of the settings override built-in ones of the same name."""
    known = {detector.name: detector for detector in _BUILT_IN}
    known |= {
        detector.name: detector for detector in map(_load_configured, get_settings().DETECTORS)
    }
    known.setdefault(_PRESIDIO.name, _PRESIDIO)
    return known


def _load_configured(path: str) -> Detector:
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"DETECTORS: {path!r} cannot be imported.") from error
    detector = found() if isinstance(found, type) else found
    name = getattr(detector, "name", None)
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ConfigurationError(
            f"DETECTORS: {path!r} must have a name of letters, digits and underscores."
        )
    if not callable(getattr(detector, "find", None)):
        raise ConfigurationError(f"DETECTORS: {path!r} has no method find(text).")
    configured: Detector = detector
    return configured


def _missing_distribution(detector: Detector) -> tuple[str, str] | None:
    """Return the missing distribution of a detector and its extra."""
    needs: tuple[str, str, str] | None = getattr(detector, "needs", None)
    if needs is None:
        return None
    module, distribution, extra = needs
    return None if importlib.util.find_spec(module) else (distribution, extra)


def _require(detector: Detector) -> None:
    if missing := _missing_distribution(detector):
        raise MissingDependencyError(missing[0], extra=missing[1])
