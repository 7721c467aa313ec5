"""What a run is to be."""

from __future__ import annotations

import argparse

from .servers import ASGI, WSGI

PACE = {
    "EXAMPLE_FIRST_DELAY": "1-5",
    "EXAMPLE_WORD_DELAY": "0.0125-0.033",
    "EXAMPLE_TOOL_DELAY": "0.05-0.3",
}
"""The first word of a model after 1 to 5 s, then 30 to 80 words a second; a tool's 50 to 300 ms."""

REAL_MODELS = ("OPENAI_API_KEY", "OLLAMA_HOST")
"""Variables by which the example would take a real model; AWS's besides."""


class Plan(argparse.Namespace):
    """A run, as the command line has it."""

    minutes: float
    agents: int
    server: str
    database: str
    workers: int
    threads: int
    think: list[float]
    conn_max_age: int
    max_connections: int
    pool: int
    seed: int

    def environment(self) -> dict[str, str]:
        """What the settings are told."""
        return {
            "LOAD_AGENTS": str(self.agents),
            "LOAD_VENDOR": self.database,
            "LOAD_CONN_MAX_AGE": str(self.conn_max_age),
            "LOAD_MAX_CONNECTIONS": str(self.max_connections),
        }

    def own_connections(self) -> int:
        """How many connections the app's own threads may have, at most."""
        return self.workers * self.max_connections

    def all_connections(self) -> int:
        """And those of requests besides: a thread has one, and a person one request at a time."""
        if self.pool:
            return self.workers * self.pool
        requests = self.workers * self.threads if self.server == WSGI else self.agents
        return self.own_connections() + requests

    def idle_connections(self) -> int:
        """How many connections may be kept when nobody talks any more."""
        if self.pool:
            return self.workers * self.pool
        return self.all_connections() if self.conn_max_age else 0

    def command(self) -> str:
        """How to do the same again."""
        text = (
            f"make load MINUTES={self.minutes:g} AGENTS={self.agents} SERVER={self.server} "
            f"DATABASE={self.database}"
        )
        defaults = parser()
        options = []
        for name in ("workers", "threads", "conn_max_age", "max_connections", "pool", "seed"):
            if getattr(self, name) != defaults.get_default(name):
                options.append(f"--{name.replace('_', '-')} {getattr(self, name)}")
        if self.think != defaults.get_default("think"):
            options.append(f"--think {self.think[0]:g} {self.think[1]:g}")
        return text + (f' LOAD="{" ".join(options)}"' if options else "")

    def layout(self) -> str:
        """How the server was set up, in words."""
        threads = f" of {self.threads} threads" if self.server == WSGI else ""
        pool = f", a pool of {self.pool} each" if self.pool else ""
        return (
            f"{self.workers} worker processes{threads}{pool}, `CONN_MAX_AGE` {self.conn_max_age}, "
            f"`MAX_CONNECTIONS` {self.max_connections}; {self.think[0]:g} to {self.think[1]:g} s "
            "between an answer and the next message"
        )


def parser() -> argparse.ArgumentParser:
    """What the command line takes."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.load")
    found.add_argument("--minutes", type=float, default=10)
    found.add_argument("--agents", type=int, default=200, help="people who talk at once")
    found.add_argument("--server", choices=[ASGI, WSGI], default=ASGI)
    found.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    found.add_argument("--workers", type=int, default=2, help="processes of the server")
    found.add_argument("--threads", type=int, default=110, help="of each, under WSGI")
    found.add_argument(
        "--think",
        type=float,
        nargs=2,
        default=[1.0, 3.0],
        metavar=("LEAST", "MOST"),
        help="seconds between an answer and what a person does next",
    )
    found.add_argument("--conn-max-age", type=int, default=0)
    found.add_argument("--max-connections", type=int, default=8)
    found.add_argument("--pool", type=int, default=0, help="psycopg's pool of so many, per process")
    found.add_argument("--seed", type=int, default=0)
    return found


def parsed(arguments: list[str] | None = None) -> Plan:
    """Read the command line."""
    return parser().parse_args(arguments, namespace=Plan())
