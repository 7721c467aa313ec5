"""The session's ids on the SDK's own traces."""

from __future__ import annotations

from dataclasses import replace

from agents import RunConfig

from .session import DjangoSession


def trace_config(session: DjangoSession, config: RunConfig | None = None) -> RunConfig:
    """Return a configuration with which the traces of a run have the session's ids.

    ::

        await Runner.run(agent, "Hello", session=session, run_config=trace_config(session))

    The session id is the ``group_id`` of the trace. This id and the namespace are the metadata of
    the trace, which its spans have as ``trace_metadata``. The owner, the scope and content are not
    included.

    Args:
        session: The session of the run.
        config: A configuration to extend; its own ``group_id`` and metadata are kept.
    """
    config = config or RunConfig()
    ids = {"agent_sessions.session_id": session.session_id}
    if session.namespace:
        ids["agent_sessions.namespace"] = session.namespace
    return replace(
        config,
        group_id=config.group_id or session.session_id,
        trace_metadata={**ids, **(config.trace_metadata or {})},
    )
