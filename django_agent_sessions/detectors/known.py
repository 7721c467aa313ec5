"""Which detectors there are, by name."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence

from django.utils.module_loading import import_string

from django_agent_sessions.conf import get_settings
from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError

from .api_keys import ApiKey
from .cards import Card
from .emails import Email
from .finding import Detector
from .ibans import Iban
from .ips import Ip
from .jwts import Jwt
from .phones import Phone
from .presidio import Presidio
from .private_keys import PrivateKey
from .ssns import UsSsn

# The order decides between two that find the very same place: the more exact one stands first.
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
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def load(names: Sequence[str]) -> list[Detector]:
    """Finds detectors by name."""
    known = _known()
    found = []
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"There is no detector {name!r}. The detectors are: {', '.join(known)}."
            )
        detector = known[name]
        _require(detector)
        found.append(detector)
    return found


def available() -> list[Detector]:
    """Lists what is quick and needs nothing that is not installed."""
    return [d for d in _known().values() if d is not _PRESIDIO and _missing(d) is None]


def names() -> list[str]:
    """Lists the names that :func:`load` knows, whether their packages are installed or not."""
    return list(_known())


def labels() -> dict[str, str]:
    """Says what people call the detectors that can be used here, for forms."""
    usable = (d for d in _known().values() if _missing(d) is None)
    return {d.name: str(getattr(d, "label", d.name)) for d in usable}


def _known() -> dict[str, Detector]:
    """All detectors. One from the settings takes the place of a built-in one of its name."""
    known = {detector.name: detector for detector in _BUILT_IN}
    known |= {detector.name: detector for detector in map(_configured, get_settings().DETECTORS)}
    known.setdefault(_PRESIDIO.name, _PRESIDIO)
    return known


def _configured(path: str) -> Detector:
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"DETECTORS: {path!r} cannot be imported") from error
    detector = found() if isinstance(found, type) else found
    name = getattr(detector, "name", None)
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ConfigurationError(
            f"DETECTORS: {path!r} needs a name of letters, digits and underscores"
        )
    if not callable(getattr(detector, "find", None)):
        raise ConfigurationError(f"DETECTORS: {path!r} has no method find(text)")
    usable: Detector = detector
    return usable


def _missing(detector: Detector) -> tuple[str, str] | None:
    """The distribution that a detector needs and that is not installed, and its extra."""
    needs: tuple[str, str, str] | None = getattr(detector, "needs", None)
    if needs is None:
        return None
    module, distribution, extra = needs
    return None if importlib.util.find_spec(module) else (distribution, extra)


def _require(detector: Detector) -> None:
    if missing := _missing(detector):
        raise MissingDependencyError(missing[0], extra=missing[1])
