"""A REST API of sessions for frontends, on Django REST framework.

::

    INSTALLED_APPS = [..., "rest_framework", "django_filters", "django_agent_sessions"]
    urlpatterns = [path("api/agent-sessions/", include("django_agent_sessions.rest.urls"))]

Users reach their own sessions only: a session of another user is answered like one that does not
exist. Views, serializers, permissions, paginators and the router can be subclassed.
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
