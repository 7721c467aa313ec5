"""What happens when the SDK no longer has a private name that the package uses."""

from __future__ import annotations

import logging

import pytest
from agents import RunConfig, Runner
from agents.run import CallModelData, ModelInputData

from django_agent_sessions.adapters.openai_agents import DjangoSession, model_exchange

from .compact_api import Server
from .team import assistant
from .test_compaction import server

__all__ = ["server"]
pytestmark = pytest.mark.django_db(transaction=True)

PRIVATE = "_session_compaction_model_exchange"


def withheld(data: CallModelData) -> ModelInputData:
    given = data.model_data
    return ModelInputData(given.input[-1:], given.instructions)


async def run_withholding(server: Server) -> DjangoSession:
    session = DjangoSession("s", compaction=server.compaction(least=1))
    await session.add_items([{"role": "user", "content": "a secret of another person"}])
    config = RunConfig(call_model_input_filter=withheld, tracing_disabled=True)
    await Runner.run(assistant("Fine."), "Hello", session=session, run_config=config)
    return session


@pytest.mark.parametrize("name", ["digest", "exchange"])
async def test_a_new_release_without_the_names_is_not_compacted_and_that_is_logged(
    server, monkeypatch, caplog, name
):
    if name == "digest":
        monkeypatch.setattr(model_exchange, "digest_input_item", None)
    else:
        monkeypatch.setattr(model_exchange, "_EXCHANGE", "_gone")

    session = await run_withholding(server)

    assert server.requests == []
    assert len(await session.get_items()) == 3
    assert "does not record what a model has seen" in caplog.text
    assert "run_compaction()" in caplog.text
    # What the text offers.
    await session.run_compaction({"force": True})
    assert len(server.requests) == 1


async def test_an_old_release_compacts_all_and_warns_once(server, monkeypatch, caplog):
    monkeypatch.setattr(model_exchange, "digest_input_item", None)
    monkeypatch.setattr(model_exchange, "version", lambda name: "0.22.0")
    model_exchange._warn_once.cache_clear()

    for _ in range(2):
        await run_withholding(server)

    assert len(server.requests) == 2
    warnings = [r for r in caplog.records if "withheld" in r.getMessage()]
    assert [r.levelno for r in warnings] == [logging.WARNING]
