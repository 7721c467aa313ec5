"""One package per agent framework: the only modules that import its SDK.

Each requires the extra that installs its SDK, and imports no other adapter. What all of them share
is in :mod:`~django_agent_sessions.adapters.base`.
"""
