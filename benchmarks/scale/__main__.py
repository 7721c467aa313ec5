"""``python -m benchmarks.scale``: the admin's pages at a hundred times the data, in one run.

Two sites, one with 10,000 messages in 200 sessions and one with 1,000,000 in 20,000, are asked in
turns for the same pages. With ``--sessions 1000000``, one site with so many sessions of two
messages is asked for every page instead. It needs PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD)
and 5 GB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

from benchmarks.tables import table, verdict

from . import session_pages
from .process import Process

SMALL, LARGE = 10_000, 1_000_000
ROUNDS = 15
ALLOWED = 1.5
_LIST = "/admin/agent_sessions/session/"
PAGES = {
    "list": _LIST,
    "search, rare word": f"{_LIST}?q=xylophone",
    "search, common word": f"{_LIST}?q=invoice",
    "search, session id": f"{_LIST}?q=session-77",
    "transcript, 50 messages": f"{_LIST}{{usual}}/change/",
    "transcript, 10,000 messages": f"{_LIST}{{long}}/change/",
    "transcript, one of 36 MB": f"{_LIST}{{large}}/change/",
    "usage": "/admin/agent_sessions/usagerollup/?days=90",
}


def main() -> int:
    """Run the measurement; return 0 if every page kept its bound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--messages", type=int, default=LARGE, help="of the larger site")
    parser.add_argument("--sessions", type=int, help="ask for every page of so many sessions")
    parser.add_argument("--only", default="", help="the pages with this in their names")
    parser.add_argument("--keep", action="store_true", help="keep the database of the sessions")
    parser.add_argument("--kept", default="", help="the database that --keep has left")
    given = parser.parse_args()
    if given.sessions or given.kept:
        return session_pages.measure(given.sessions or 0, given.only, given.keep, given.kept)
    messages = given.messages
    sites = [
        Process(f"agent_sessions_scale_{count}_{os.getpid()}", count, "--load", "--pages")
        for count in (SMALL, messages)
    ]
    try:
        sessions = [site.answer() for site in sites]
        rows = []
        for name, page in PAGES.items():
            urls = [page.format(**chosen) for chosen in sessions]
            rows.append([name, *_measured(sites, urls)])
            print(f"{name}: {rows[-1][-1]}", file=sys.stderr, flush=True)
        head = ["page", "statements", f"{SMALL:,}", f"{messages:,}", "ratio", "in the database", ""]
        print(table(head, rows))
        large = PAGES["transcript, one of 36 MB"].format(**sessions[1])
        opened = sites[1].ask(url=large, memory=True)
        print(
            f"\nThe page of the session with the message of 36 MB is {opened['bytes']:,} bytes; "
            f"making it took at most {opened['peak'] / 1e6:.1f} MB of memory."
        )
        return int(any(row[-1] != verdict(True) for row in rows))
    finally:
        for site in sites:
            site.close()


def _measured(sites: list[Process], urls: list[str]) -> list[str]:
    rounds = [
        [site.ask(url=url) for site, url in zip(sites, urls, strict=True)]
        for _ in range(ROUNDS + 3)
    ][3:]
    few, many = zip(*rounds, strict=True)
    times = [statistics.median(one["seconds"] for one in found) for found in (few, many)]
    inside = [statistics.median(one["database"] for one in found) for found in (few, many)]
    counts = {one["statements"] for one in (*few, *many)}
    return [
        "/".join(map(str, sorted(counts))),
        *(f"{seconds * 1000:.1f} ms" for seconds in times),
        f"{times[1] / times[0]:.2f}",
        f"{inside[0] * 1000:.0f} → {inside[1] * 1000:.0f} ms",
        verdict(times[1] <= ALLOWED * times[0] and len(counts) == 1),
    ]


if __name__ == "__main__":
    sys.exit(main())
