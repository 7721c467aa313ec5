"""Sessions of the OpenAI Agents SDK in the project's database.

::

    from agents import Runner
    from django_agent_sessions.adapters.openai_agents import DjangoSession

    session = DjangoSession(session_id, owner=request.user)
    result = await Runner.run(agent, "Hello", session=session)

Only the SDK's public contract is implemented: the ``Session`` protocol, with the ``wrapper``
parameter that its Runner detects. The underscored methods that the SDK's own stores offer to its
compaction session (``_get_compaction_snapshot``, ``_atomic_replace_items``) exchange a private
dataclass and change between releases, so they are not implemented: compaction then works as the SDK
documents for all other stores, and replaces a history only completely.
"""

from __future__ import annotations

from django_agent_sessions.exceptions import MissingDependencyError

try:
    import agents as _agents
except ImportError as error:
    raise MissingDependencyError("openai-agents", extra="openai") from error

from .advanced_session import AdvancedDjangoSession
from .session import DjangoSession

__all__ = [
    "AdvancedDjangoSession",
    "DjangoSession",
]

del _agents
