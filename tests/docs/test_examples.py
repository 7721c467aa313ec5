"""The examples in the documentation run."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, models, transaction
from django.db.models import Q
from django.test.utils import isolate_apps
from django.utils import timezone
from sphinx.util import inspect as sphinx_inspect

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.governance import sharing
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import NewMessage
from example_project.chat.offline.strands_model import OfflineStrandsModel
from tests.store.test_async import SYNC

DOCS = Path(__file__).resolve().parents[2] / "docs"


def example(page: str, function: str, **given: Any) -> Any:
    """The function that an example on a page defines, with names that the page does not define."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    namespace: dict[str, Any] = given
    exec("\n".join(b for b in blocks if "def " in b), namespace)  # noqa: S102 - our own page
    return namespace[function]


@pytest.mark.django_db
def test_the_chat_loop_without_an_sdk_remembers_and_knows_its_owner() -> None:
    chat = example("how-to/store.md", "chat")
    ada, bob = (User.objects.create_user(name) for name in ("ada", "bob"))

    def client(messages: list[dict[str, str]]) -> str:
        return f"{len(messages)} messages, the first: {messages[0]['content']}"

    assert chat(ada, "talk", "I am Ada", client) == "1 messages, the first: I am Ada"
    assert chat(ada, "talk", "Who am I?", client) == "3 messages, the first: I am Ada"
    with pytest.raises(SessionNotFoundError):
        chat(bob, "talk", "Who was that?", client)
    # As the page says, an id that is not there yet is made for whoever asks first.
    assert chat(bob, "another", "Hello", client) == "1 messages, the first: Hello"
    with pytest.raises(SessionNotFoundError):
        chat(ada, "another", "Hello", client)


@pytest.mark.django_db
def test_the_support_group_has_the_permissions_that_the_page_names() -> None:
    group = example("how-to/audit.md", "make_support_group")()

    names = set(group.permissions.values_list("codename", flat=True))
    assert names == {"view_session", "read_transcript", "export"}


@pytest.mark.django_db(transaction=True)
def test_an_agent_joins_the_transaction_of_the_page_about_contexts() -> None:
    given = {"tool": lambda found: found, "contextmanager": lambda found: found}
    rename_and_tell = example("how-to/contexts.md", "rename_and_tell", **given)
    ada = User.objects.create_user("ada")

    with transaction.atomic():
        rename_and_tell(ada, "talk", "Ada", OfflineStrandsModel())
        transaction.set_rollback(True)
    assert not Session.objects.exists()
    rename_and_tell(ada, "talk", "Ada", OfflineStrandsModel())

    assert User.objects.get(first_name="Ada") == ada
    assert Session.objects.get().message_count == 2


@pytest.mark.django_db
def test_the_access_rules_reach_a_team_and_a_tenant() -> None:
    ada, bob, eve = (User.objects.create_user(name) for name in ("ada", "bob", "eve"))
    bob.is_staff = True
    group = Group.objects.create(name="team")
    group.user_set.set([ada, bob, eve])
    mine = Session.objects.create(session_id="mine", owner=ada)
    nobodys = Session.objects.create(session_id="nobodys", namespace="tenant-x")
    root = User.objects.create_superuser("root")

    def reached(rule: Any, user: Any, action: SessionPermission) -> Any:
        answer = rule().sessions(user, action)
        return list(Session.objects.filter(answer)) if isinstance(answer, Q) else answer

    team, tenant = (example("how-to/access.md", name) for name in ("TeamAccess", "TenantAccess"))
    assert reached(team, bob, SessionPermission.READ) == [mine]
    assert reached(team, bob, SessionPermission.DELETE) is None
    assert reached(team, eve, SessionPermission.READ) is None
    assert reached(team, root, SessionPermission.READ) is EVERYBODY
    assert reached(tenant, root, SessionPermission.DELETE) == [nobodys]
    assert reached(tenant, bob, SessionPermission.VIEW) is None


@pytest.mark.django_db
@isolate_apps("tests")
def test_members_of_a_projects_own_teams_reach_what_their_roles_allow() -> None:
    class Membership(models.Model):  # noqa: DJ008 - of this test only
        user = models.IntegerField(db_column="member")
        team = models.IntegerField()
        role = models.TextField()

        class Meta:
            app_label = "tests"

    with connection.cursor() as cursor:
        columns = "id INTEGER, member INTEGER, team INTEGER, role TEXT"
        cursor.execute(f"CREATE TABLE tests_membership ({columns})")
    rule = example("how-to/access.md", "TeamMembers", Membership=Membership)
    ada, bob, eve, zoe = (User.objects.create_user(name) for name in ("ada", "bob", "eve", "zoe"))
    members = [(ada, 1, "member"), (bob, 1, "member"), (eve, 1, "lead"), (zoe, 2, "lead")]
    for number, (user, team, role) in enumerate(members):
        Membership._default_manager.create(pk=number, user=user.pk, team=team, role=role)
    mine = Session.objects.create(session_id="mine", owner=ada)
    Session.objects.create(session_id="nobodys")

    def reached(user: Any, action: SessionPermission) -> Any:
        answer = rule().sessions(user, action)
        return None if answer is None else list(Session.objects.filter(answer))

    for user, reads, changes in ((bob, [mine], []), (eve, [mine], [mine]), (zoe, [], [])):
        assert reached(user, SessionPermission.READ) == reads
        assert reached(user, SessionPermission.CHANGE) == changes
        assert reached(user, SessionPermission.DELETE) is None


@pytest.mark.django_db
def test_a_session_is_given_to_another_user_as_the_page_says() -> None:
    ada, bob, eve = (User.objects.create_user(name) for name in ("ada", "bob", "eve"))
    session = SessionStore(owner=ada).open("talk")
    sharing.add_participant(session, eve, "reader")
    statement = r"- `(Session\.objects\..*update\(owner=user\))` gives a session to another"
    (code,) = re.findall(statement, (DOCS / "how-to" / "store.md").read_text())

    exec(code, {"Session": Session, "session": session, "user": bob})  # noqa: S102 - our own page

    assert SessionStore(owner=bob).get("talk").id == session.id
    with pytest.raises(SessionNotFoundError):
        SessionStore(owner=ada).get("talk")
    assert sharing.owner_for(eve, session, write=False) == bob.pk


@pytest.mark.django_db
def test_code_that_decides_by_itself_reaches_a_users_session() -> None:
    last_seen = example("how-to/views.md", "last_seen")
    session = SessionStore(owner=User.objects.create_user("ada")).open("talk")

    assert last_seen("talk") == session.last_activity_at
    with pytest.raises(SessionNotFoundError):
        last_seen("another")


@pytest.mark.django_db(transaction=True)
def test_the_async_chat_loop_without_an_sdk_remembers() -> None:
    achat = example("how-to/store.md", "achat")
    ada = User.objects.create_user("ada")

    async def client(messages: list[dict[str, str]]) -> str:
        return f"{len(messages)} messages"

    assert asyncio.run(achat(ada, "talk", "Hello", client)) == "1 messages"
    assert asyncio.run(achat(ada, "talk", "Still there?", client)) == "3 messages"


@pytest.mark.django_db
def test_the_example_of_a_redaction_prints_places_and_redacts(store, capsys) -> None:
    forget_card = example("how-to/redaction.md", "forget_card")
    session = store.open("talk", title="About 4111 1111 1111 1111")
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": "It is 4111 1111 1111 1111."})

    done = forget_card(session, "4111 1111 1111 1111", User.objects.create_user("ada"))

    assert (done.messages, done.states) == (1, 1)
    assert store.payloads(agent) == [{"role": "user", "content": "It is [REDACTED]."}]
    printed = capsys.readouterr().out
    assert "message 0, message.content" in printed
    assert "4111" not in printed


@pytest.mark.django_db
def test_the_example_of_a_repeated_append_writes_once(store) -> None:
    append_once = example("how-to/store.md", "append_once")
    agent = store.agents.open(store.open("talk"))
    message = NewMessage({"role": "assistant", "content": "Hello"})

    first, second = (append_once(store, agent, message) for _ in range(2))

    assert first.message_id == second.message_id == 0
    assert store.payloads(agent) == [message.payload]


@pytest.mark.django_db
def test_the_example_of_every_session_of_a_user_leaves_others_alone() -> None:
    forget_for = example("how-to/redaction.md", "forget_for")
    ada, bob = (User.objects.create_user(name) for name in ("ada", "bob"))
    said = {"role": "user", "content": "It is 4111."}
    agents = {}
    for name, owner in [("a", ada), ("b", ada), ("c", bob)]:
        store = SessionStore(owner=owner)
        agents[name] = store.agents.open(store.open(name))
        store.append(agents[name], said)

    assert [len(one.hits) for one in forget_for(ada, "4111", bob, dry_run=True)] == [1, 1]
    forget_for(ada, "4111", bob)

    left = {name: SessionStore().payloads(agent)[0]["content"] for name, agent in agents.items()}
    assert left == {"a": "It is [REDACTED].", "b": "It is [REDACTED].", "c": "It is 4111."}


@pytest.mark.django_db(transaction=True)
def test_the_examples_of_retention_delete_explain_and_prove(store, settings) -> None:
    block = re.search(r"```python\n(.*?)```", (DOCS / "how-to/retention.md").read_text(), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(block[1], namespace)  # type: ignore[index] # noqa: S102 - our own page
    settings.AGENT_SESSIONS = namespace["AGENT_SESSIONS"]
    old = timezone.now() - timedelta(days=366)
    keys = {name: store.open(name).id for name in ("old", "old, but held", "old, but in use")}
    Session.objects.exclude(session_id="old, but in use").update(last_activity_at=old)
    Session.objects.filter(session_id="old, but held").update(legal_hold=True)
    session = Session.objects.get(session_id="old")

    explained = example("how-to/retention.md", "explain")(session)
    assert explained.endswith(", time since the last activity")
    assert not example("how-to/retention.md", "sessions_to_review")()
    assert example("how-to/retention.md", "prune_for_ten_minutes")() == (1, True)

    left = Session.objects.values_list("session_id", flat=True)
    assert set(left) == {"old, but held", "old, but in use"}
    [proof] = example("how-to/retention.md", "proof_of_deletion")(keys["old"])
    run = example("how-to/retention.md", "events_of_run")(proof.target)
    assert [event.action for event in run] == ["deleted", "pruned"]


@pytest.mark.parametrize(("kind", "name"), SYNC)
def test_the_documentation_shows_the_parameters_of_a_twin(kind, name):
    twin = getattr(kind, f"a{name}")

    shown = sphinx_inspect.stringify_signature(sphinx_inspect.signature(twin, bound_method=True))
    assert shown == sphinx_inspect.stringify_signature(
        sphinx_inspect.signature(getattr(kind, name), bound_method=True)
    )
    assert sphinx_inspect.iscoroutinefunction(twin)
    assert sphinx_inspect.getdoc(twin) == f"Async version of :meth:`{name}`."
    assert (twin.__name__, twin.__qualname__) == (f"a{name}", f"{kind.__name__}.a{name}")


@pytest.mark.django_db(transaction=True)
def test_a_celery_task_that_is_delivered_twice_answers_once() -> None:
    reply = example("how-to/celery.md", "reply", model=OfflineStrandsModel())
    ada = User.objects.create_user("ada")
    delivered = {"args": (ada.pk, "talk", "Hello, my name is Ada."), "task_id": str(uuid4())}
    messages = SessionMessage.objects.filter(session__session_id="talk")

    # Redaction does not reach what a task returns.
    assert [reply.apply(**delivered).get() for _ in range(2)] == [None, None]

    assert (reply.acks_late, reply.reject_on_worker_lost) == (True, True)
    assert [message.role for message in messages.order_by("id")] == ["user", "assistant"]

    reply.apply(args=(ada.pk, "talk", "Another job."), task_id=str(uuid4())).get()
    reply.apply(**delivered).get()
    assert messages.count() == 4
