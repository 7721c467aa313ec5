"""Move the modules of the package to the rooms of the layer contract; see ARCHITECTURE.md.

    python -m maintenance.moves

It runs on a tree from before the moves, and can bring another branch of that time up to date.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .rewrite import Plan, Rewriter, page

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "django_agent_sessions"
FOLDERS = (PACKAGE, "tests", "benchmarks", "example_project", "docs", ".ci", "manage.py")
TEXTS = ("*.md", "*.toml", "*.html", "*.mjs", "*.jsx", "Makefile", ".ci/run")

MODULES = {
    "ids": "values.ids",
    "owners": "values.owners",
    "records": "values.records",
    "payloads": "content.exact_json",
    "references": "content.blob_refs",
    "transcripts": "content.dialects",
    "masking": "content.masking",
    "masking.leftovers": "content.masking.removed_text",
    "detectors": "content.detectors",
    "bridge": "db.bridge",
    "workers": "db.workers",
    "work": "db.futures",
    "lenders": "db.transaction_join",
    "stacks": "db.thread_frames",
    "collector": "db.gc_pause",
    "broken_connections": "db.broken_connections",
    "transient": "db.db_errors",
    "vendors": "db.vendors",
    "notifying": "db.notifications",
    "leftovers": "db.sqlite_secure_delete",
    "fields": "models.fields",
    "querysets": "models.querysets",
    "functions": "models.functions",
    "batches": "models.deletion",
    "permissions": "models.permissions",
    "statements": "sql.message_writes",
    "reads": "sql.message_reads",
    "named": "sql.lookup",
    "handwritten": "sql.cursors",
    "prepared": "sql.prepared_statements",
    "partitioning": "sql.partitioning",
    "charsets": "sql.charsets",
    "holds": "governance.legal_hold",
    "redaction": "governance.redaction",
    "storing": "blobs.file_storage",
    "windows": "queries.message_pages",
    "search": "queries.search",
    "replicas": "queries.replicas",
    "middleware": "serving.middleware",
    "rest.ai_sdk": "rest.chat.ai_sdk",
    "rest.assistant_ui": "rest.chat.assistant_ui",
    "adapters.openai_agents.strays": "adapters.openai_agents.model_history",
    "adapters.openai_agents.order": "adapters.openai_agents.fifo_lock",
    "adapters.openai_agents.rewording": "adapters.openai_agents.item_redaction",
    "interchange.arriving": "interchange.session_import",
    "interchange.foreign": "interchange.untrusted",
    "interchange.kinds": "interchange.source_registry",
    "interchange.places": "interchange.locations",
    "admin.transcript.kin": "admin.transcript.relations",
    "admin.transcript.heads": "admin.transcript.sidebar",
    "admin.transcript.steps": "admin.transcript.actions",
    "admin.transcript.pieces": "admin.transcript.view_models",
    "adapters.openai_agents.memory": "adapters.openai_agents.item_cache",
    "adapters.openai_agents.branched": "adapters.openai_agents.branch_session",
    "adapters.openai_agents.advanced": "adapters.openai_agents.advanced_session",
    "adapters.strands.restoring": "adapters.strands.restore",
    "adapters.strands.scrubbing": "adapters.strands.live_redaction",
    "adapters.strands.work": "adapters.strands.session_operations",
    "adapters.strands.snapshots.redacted": "adapters.strands.snapshots.saved_redaction",
    "adapters.strands.snapshots.memory": "adapters.strands.snapshots.cache",
    "adapters.strands.snapshots.saving": "adapters.strands.snapshots.save",
    "adapters.strands.snapshots.loading": "adapters.strands.snapshots.load",
    "adapters.strands.snapshots.work": "adapters.strands.snapshots.storage_operations",
    "models.auditing": "models.audit_event",
    "models.binaries": "models.blob",
    "serving.signed": "serving.signed_urls",
    "testing.traces": "testing.leaks",
    "testing.removal": "testing.optional_contracts",
    "leases.hold": "leases.held_lease",
    "leases.rows": "leases.lease_rows",
    "usage.counting": "usage.rollups",
    "usage.tallies": "usage.rollup_rows",
    "usage.latencies": "usage.histograms",
    "usage.reading": "usage.figures",
    "events.ends": "events.row_versions",
    "events.places": "events.stream_limit",
    "events.pages": "events.event_types",
    "events.listening": "events.postgresql_listener",
    "events.reading": "events.event_pages",
    "events.states": "events.session_states",
    "rest.changing": "rest.session_locking",
    "rest.redacting": "rest.redaction",
    "rest.queries": "rest.query_parameters",
    "rest.document": "rest.openapi_settings",
    "rest.agents": "rest.agent_api",
    "rest.ai_sdk.reading": "rest.chat.ai_sdk.chat_messages",
    "rest.ai_sdk.events": "rest.chat.ai_sdk.translator",
    "rest.ai_sdk.chunks": "rest.chat.ai_sdk.stream_writer",
    "rest.ai_sdk.parts": "rest.chat.ai_sdk.ui_parts",
    "rest.assistant_ui.finding": "rest.chat.assistant_ui.thread_lookup",
    "rest.assistant_ui.keeping": "rest.chat.assistant_ui.thread_writer",
    "rest.assistant_ui.pages": "rest.chat.assistant_ui.thread_pages",
    "rest.viewsets.conversations": "rest.viewsets.session_messages",
    "rest.viewsets.forking": "rest.viewsets.forks",
    "store.branching": "store._branch_steps",
    "store.copying": "store._message_copies",
    "store.reading": "store._message_reading",
    "store.cleaning": "store._mask_on_write",
    "store.documents": "store._snapshot_documents",
    "store.redacting": "store._redaction",
    "store.offloading": "store._offload",
    "store.appending": "store._append",
    "blobs.files": "blobs.blob_files",
    "blobs.streaming": "blobs.blob_streams",
    "serving.files": "serving.responses",
    "interchange.layout.files": "interchange.layout.document_files",
    "interchange.layout.documents": "interchange.layout.session_documents",
    "interchange.layout.sessions": "interchange.layout.session_layout",
    "rest.ai_sdk.transcript": "rest.chat.ai_sdk.ui_messages",
    "rest.ai_sdk.registry": "rest.chat.ai_sdk.run_registry",
    "rest.ai_sdk.requests": "rest.chat.ai_sdk.chat_requests",
    "rest.ai_sdk.sessions": "rest.chat.ai_sdk.chat_sessions",
    "adapters.openai_agents.turns": "adapters.openai_agents.turn_queries",
    "adapters.strands.snapshots.documents": "adapters.strands.snapshots.json_documents",
    "admin.transcript.turns": "admin.transcript.builder",
    "masking.blanking": "content.masking.message_redaction",
    "masking.following": "content.masking.reapplied",
    "masking.replacing": "content.masking.replacement",
    "masking.spellings": "content.masking.spelling",
    "masking.encoded": "content.masking.encodings",
    "masking.trees": "content.masking.payloads",
    "masking.assistant_ui": "content.masking.frontend_messages",
    "masking.ids": "content.masking.replacement_ids",
    "detectors.finding": "content.detectors.detection",
    "detectors.known": "content.detectors.registry",
    "transcripts.blocks": "content.dialects.paths",
    "redaction.work": "governance.redaction.session_redaction",
    "blobs.collecting": "blobs.garbage_collection",
    "blobs.reading": "blobs.restoring",
    "blobs.rows": "blobs.blob_rows",
    "storing.pieces": "blobs.file_storage.streams",
    "interchange.conversations": "interchange.message_import",
    "interchange.jsonl": "interchange.jsonl_export",
    "interchange.jsonl_reading": "interchange.jsonl_import",
    "interchange.strands_writing": "interchange.strands_export",
    "interchange.rows": "interchange.row_pages",
    "interchange.owners": "interchange.owner_mapping",
    "admin.key_pages": "admin.keyset_changelist",
    "admin.moments": "admin.formatting",
    "admin.audit_words": "admin.audit_descriptions",
    "admin.holding": "admin.hold_views",
    "admin.exporting": "admin.export",
    "admin.redacting": "admin.redaction",
    "admin.transcript.parts": "admin.transcript.message_items",
    "admin.transcript.contents": "admin.transcript.message_rendering",
    "admin.transcript.timepicture": "admin.transcript.activity_chart",
    "admin.transcript.wording": "admin.transcript.text_rendering",
    "admin.transcript.trees": "admin.transcript.json_tree",
    "admin.timeline.questions": "admin.timeline.confirmations",
    "admin.timeline.comparing": "admin.timeline.comparison",
    "admin.timeline.changes": "admin.timeline.operations",
    "integrity.mending": "integrity.repair",
    "integrity.closing": "integrity.gaps",
    "integrity.pieces": "integrity.row_batches",
    "integrity.pairs": "integrity.tool_calls",
    "integrity.figures": "integrity.counters",
    "integrity.checking": "integrity.checker",
    "management.new_files": "management.atomic_files",
    "management.stopping": "management.interruption",
    "management.scopes": "management.redaction_options",
    "store.alone": "store.locking",
    "store.moments": "store._agent_snapshots",
    "store.overrides": "store._snapshot_variants",
    "store.patience": "store._retry_policy",
    "store.keyed": "store.snapshots",
    "store.snapshots": "store._snapshots",
}
TESTS = {
    "masking": "content.masking",
    "admin.redacting": "admin.redaction",
    "transcripts": "content.dialects",
    "detectors": "content.detectors",
    "redaction": "governance.redaction",
    "rest.ai_sdk": "rest.chat.ai_sdk",
    "rest.assistant_ui": "rest.chat.assistant_ui",
    "test_bridge": "db.test_bridge",
    "test_workers": "db.test_workers",
    "test_collector": "db.test_gc_pause",
    "test_stacks": "db.test_thread_frames",
    "test_ids": "values.test_ids",
    "test_owners": "values.test_owners",
    "test_owners_matrix": "values.test_owners_matrix",
    "test_payloads": "content.test_exact_json",
    "test_fields": "models.test_fields",
    "test_models": "models.test_models",
    "test_search": "queries.test_search",
    "search_process": "queries.search_process",
    "test_holds": "governance.test_legal_hold",
    "test_originals": "governance.test_originals",
    "test_audit": "audit.test_audit",
    "test_storing": "blobs.test_file_storage",
    "test_storing_in_buckets": "blobs.test_file_storage_in_buckets",
    "test_leases": "leases.test_leases",
    "test_usage": "usage.test_usage",
    "usage_data": "usage.usage_data",
    "usage_process": "usage.usage_process",
    "test_middleware": "serving.test_middleware",
    "test_command_databases": "management.test_command_databases",
    "test_command_options": "management.test_command_options",
    "test_redact_command": "management.test_redact_command",
    "test_contract_store": "testing.test_contract_store",
}
PACKAGES = {"audit"}
"""Modules that become packages of the same name."""


def store_modules() -> dict[str, str]:
    """Return the private names of the store's modules: all but its doors."""
    found = {}
    for path in sorted((ROOT / PACKAGE / "store").glob("*.py")):
        name = f"store.{path.stem}"
        if name not in MODULES and not path.stem.startswith("_"):
            found[name] = f"store._{path.stem}"
    return found


def main() -> int:
    """Rewrite and move the files of this checkout."""
    modules = {
        f"{PACKAGE}.{old}": f"{PACKAGE}.{new}" for old, new in (MODULES | store_modules()).items()
    }
    modules |= {f"tests.{old}": f"tests.{new}" for old, new in TESTS.items()}
    plan = Plan(modules)
    rewriter = Rewriter(ROOT, [f for f in FOLDERS if (ROOT / f).exists()], plan)
    rewriter.run()
    for pattern in TEXTS:
        for name in git("ls-files", pattern).split():
            path = ROOT / name
            text = path.read_text()
            changed = page(text, plan, rewriter.known)
            if changed != text:
                path.write_text(changed)
    move(plan, rewriter)
    print("\n".join(rewriter.messages))
    return 0


def move(plan: Plan, rewriter: Rewriter) -> None:
    """Move the files, and make the packages that they move into."""
    moves = []
    for source in rewriter.sources:
        assert source.module is not None
        new = plan.module(source.module)
        whole = source.is_package or new in {f"{PACKAGE}.{name}" for name in PACKAGES}
        target = ROOT / Path(*new.split("."))
        target = target / "__init__.py" if whole else target.with_suffix(".py")
        if target != source.path and source.module.split(".")[0] in (PACKAGE, "tests"):
            moves.append((source.path, target))
    for number, (old, _) in enumerate(moves):
        old.rename(old.with_name(f"{old.name}.moving{number}"))
    for number, (old, target) in enumerate(moves):
        target.parent.mkdir(parents=True, exist_ok=True)
        old.with_name(f"{old.name}.moving{number}").rename(target)
        folder = target.parent
        while folder not in (ROOT / PACKAGE, ROOT / "tests"):
            if not (folder / "__init__.py").exists() and not any(
                t == folder / "__init__.py" for _, t in moves
            ):
                (folder / "__init__.py").write_text("")
            folder = folder.parent
    # What lies beside the modules: texts, recorded answers.
    for before, after in plan.modules.items():
        here, there = (ROOT / Path(*name.split(".")) for name in (before, after))
        if here.is_dir():
            for path in [p for p in here.rglob("*") if p.is_file() and p.suffix != ".pyc"]:
                to = there / path.relative_to(here)
                to.parent.mkdir(parents=True, exist_ok=True)
                path.rename(to)


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
