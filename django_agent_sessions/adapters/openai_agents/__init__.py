"""Sessions of the OpenAI Agents SDK in the project's database.

::

    from agents import Runner
    from django_agent_sessions.adapters.openai_agents import DjangoSession

    session = DjangoSession(session_id, owner=request.user)
    result = await Runner.run(agent, "Hello", session=session)

Only the SDK's public contract is implemented: the ``Session`` protocol, with the ``wrapper``
parameter and the ``run_compaction`` method that its Runner detects. The underscored methods that
the SDK's own stores offer to its compaction session (``_get_compaction_snapshot``,
``_atomic_replace_items``) exchange a private dataclass and change between releases, so they are not
implemented: a session compacts itself, see :class:`Compaction`.
"""

from __future__ import annotations

from django_agent_sessions.exceptions import MissingDependencyError
from django_agent_sessions.values.dependencies import require_version

try:
    import agents as _agents
except ImportError as error:
    raise MissingDependencyError("openai-agents", extra="openai") from error
else:
    require_version("openai-agents", "0.17.4", extra="openai")

from .advanced_session import AdvancedDjangoSession
from .compaction import Compaction
from .session import DjangoSession
from .trace_ids import trace_config

__all__ = [
    "AdvancedDjangoSession",
    "Compaction",
    "DjangoSession",
    "trace_config",
]

del _agents
