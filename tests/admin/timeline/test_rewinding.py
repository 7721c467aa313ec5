"""A rewind says what will happen and does it; what it sets aside is read on its branch alone."""

from __future__ import annotations

import re

import pytest

from django_agent_sessions.models import Branch
from tests.admin.transcripts import said, shown

from .pages import Action, confirmed, events, first, key, url, words

pytestmark = pytest.mark.django_db


def test_a_rewind_says_what_will_happen_and_does_it(client, traveller, talker):
    address = url(talker, "rewind", key(talker, 2))

    asked = shown(client, address)
    assert "3 messages after it are moved to a side branch" in asked
    assert "planner" in asked
    assert "Nothing is lost" in asked
    assert words(talker) == list("012345")

    page = confirmed(client, address)
    assert "3 messages were moved to branch-1." in page
    assert "word 2" in page
    assert "word 3" not in page
    assert words(talker) == list("012")
    assert words(talker, 1) == list("012345")
    (event,) = events(Action.REWOUND)
    assert (event.session, event.target) == (talker.session, key(talker, 2))
    assert event.details == {"branch": 1, "set_aside": 3}
    assert event.actor == "traveller"


def test_the_transcript_shows_the_main_branch_only_and_a_side_branch_when_asked(
    client, traveller, talker, store
):
    later = key(talker, 4)
    store.branches.rewind(talker, 2)
    store.append(talker, said("user", "another way"))

    page = shown(client, url(talker, "change"))
    assert "another way" in page
    assert page.count("word 1") == 1
    assert "word 4" not in page
    assert "You are reading branch" not in page

    side = shown(client, url(talker, "change", agent=talker.id, branch=1))
    assert "word 4" in side
    assert "another way" not in side
    assert "You are reading branch" in side
    assert "/rewind/" not in side
    assert "/fork/" in side
    fragment = shown(client, url(talker, "messages", agent=talker.id, branch=1, before=later))
    assert "word 3" in fragment
    assert "word 5" not in fragment


def test_a_link_to_a_message_that_was_set_aside_leads_to_its_branch(
    client, traveller, talker, store
):
    later = key(talker, 4)
    store.branches.rewind(talker, 2)

    answer = client.get(url(talker, "change", at=later))
    assert answer.status_code == 302
    page = shown(client, answer.url)
    assert f'id="m-{later}"' in page
    assert "branch-1" in page


def test_finding_does_not_find_what_branches_have_in_common_twice(client, traveller, talker, store):
    store.branches.rewind(talker, 2)

    def found(query: str) -> list[str]:
        answer = client.post(url(talker, "find"), {"query": query})
        _head, hits = answer.content.decode().split('class="as-hits"')
        return re.findall(r"<li><a href=\"[^\"]*at=.*?</li>", hits)

    assert len(found("word 1")) == 1
    (aside,) = found("word 4")
    assert "branch 1" in aside


def test_an_answer_to_other_figures_is_asked_for_anew(client, traveller, talker, store):
    address = url(talker, "rewind", key(talker, 2))
    seen = first(r'name="seen" value="([^"]*)"', shown(client, address))
    store.append(talker, said("user", "word 6"))

    for given in ({"seen": seen}, {"seen": ""}, {}):
        page = client.post(address, given).content.decode()
        assert "Nothing has been changed yet" in page
        assert "4 messages after it" in page
    assert words(talker) == list("0123456")


def test_what_is_last_cannot_be_rewound_to(client, traveller, talker):
    address = url(talker, "rewind", key(talker, 5))
    assert "There are no messages after this message." in shown(client, address)
    assert client.post(address, {"seen": "5 6"}).status_code == 200
    assert not Branch.objects.exists()
    assert events(Action.REWOUND) == []
