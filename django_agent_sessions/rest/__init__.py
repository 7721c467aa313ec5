"""A REST API of sessions for frontends, on Django REST framework.

::

    INSTALLED_APPS = [..., "rest_framework", "django_filters", "django_agent_sessions"]
    urlpatterns = [path("api/agent-sessions/", include("django_agent_sessions.rest.urls"))]

Everybody reaches their own sessions and nobody else's, for which every answer is the one of a
session that does not exist. Views, serializers, permissions, paginators and the router are made to
be subclassed.
"""

from __future__ import annotations

from importlib.util import find_spec

from django_agent_sessions.exceptions import MissingDependencyError

for _module, _distribution in (
    ("rest_framework", "djangorestframework"),
    ("django_filters", "django-filter"),
    ("drf_spectacular", "drf-spectacular"),
):
    if find_spec(_module) is None:
        raise MissingDependencyError(_distribution, extra="rest")
