"""A process that carries out an operation: ``python -m tests.operations.worker KEY FOLDER``."""

from __future__ import annotations

import sys
from uuid import UUID

import django

django.setup()

from django.contrib import admin
from django.test import override_settings

from django_agent_sessions import operations
from django_agent_sessions.operations import runner
from tests.operations.making import storing_exports

if __name__ == "__main__":
    admin.autodiscover()
    runner._BATCH = 20
    with override_settings(**storing_exports(sys.argv[2])):
        ran = operations.run(UUID(sys.argv[1]), progress=lambda now: print(now.handled, flush=True))
    print(ran and ran.status)
