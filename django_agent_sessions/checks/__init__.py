"""System checks; importing this package registers them."""

from .api import check_api_apps
from .blob_storage import check_blob_prefix, check_blob_storage, check_orphaned_blobs
from .databases import (
    check_character_sets,
    check_decryption,
    check_full_text_configuration,
    check_full_text_search,
    check_routers,
    check_sessions_left_behind,
    check_storage,
    check_triggers,
)
from .limits import check_proxies, check_quotas, check_throttles
from .settings import (
    check_access,
    check_classes,
    check_connection_setup,
    check_detectors,
    check_dialects,
    check_reasons,
    check_settings,
)

__all__ = [
    "check_access",
    "check_api_apps",
    "check_blob_prefix",
    "check_blob_storage",
    "check_character_sets",
    "check_classes",
    "check_connection_setup",
    "check_decryption",
    "check_detectors",
    "check_dialects",
    "check_full_text_configuration",
    "check_full_text_search",
    "check_orphaned_blobs",
    "check_proxies",
    "check_quotas",
    "check_reasons",
    "check_routers",
    "check_sessions_left_behind",
    "check_settings",
    "check_storage",
    "check_throttles",
    "check_triggers",
]
