"""A process whose asyncio or threads a library has patched, and an agent in a transaction there.

``python -m tests.contexts.patched nest_asyncio SDK`` prints as JSON what the agent's tool saw, what
the caller saw, and how many rows are left after the rollback. ``… gevent SDK`` prints the error.
"""

from __future__ import annotations

import json
import sys
import warnings

import django

django.setup()

from django.contrib.auth import get_user_model
from django.db import transaction

from django_agent_sessions.db.bridge import joined, run_orm
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import SessionMessage
from tests.contexts.chats import Call, Step, sdk_named


def add(name: str) -> str:
    """Adds a user.

    Args:
        name: The name of the user.
    """
    users = get_user_model().objects
    run_orm(users.create_user, name)
    return run_orm(lambda: ", ".join(sorted(user.username for user in users.all())))


def roll_back(sdk: str, declared: bool) -> dict[str, object]:
    steps: list[Step] = [Call("add", {"name": "bob"}), "done"]
    with transaction.atomic():
        get_user_model().objects.create_user("ada")
        agent = sdk_named(sdk)("s", steps=steps, tools=[add])
        if declared:
            with joined():
                agent.say("add bob")
        else:
            agent.say("add bob")
        texts = [json.dumps(message.message) for message in SessionMessage.objects.all()]
        users = sorted(user.username for user in get_user_model().objects.all())
        transaction.set_rollback(True)
    return {
        "users": users,
        "said": "".join(texts),
        "left": get_user_model().objects.count() + SessionMessage.objects.count(),
    }


def main(library: str, sdk: str) -> None:
    if library == "nest_asyncio":
        import nest_asyncio

        with warnings.catch_warnings():
            # It asks for the loop of a thread that has none.
            warnings.simplefilter("ignore", DeprecationWarning)
            nest_asyncio.apply()
        print(json.dumps([roll_back(sdk, declared) for declared in (False, True)]))
        return
    from gevent import monkey

    with warnings.catch_warnings():
        # A server patches before anything else is imported.
        warnings.simplefilter("ignore", monkey.MonkeyPatchWarning)
        monkey.patch_all()
    try:
        sdk_named(sdk)("s").say("hello")
    except ConfigurationError as error:
        print(error)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
