"""Every reader gets a payload exactly as it was written, and finds its words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_agent_sessions.content import exact_json
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from tests.strategies import exactly

pytestmark = pytest.mark.django_db

PLAIN = "the words of a message, long enough to be stored once"
ESCAPES = 'several lines\n\n* with "quotes"\n* and \\ and \t and \r too, é 日 \U0001f600'

_characters = st.characters(codec=None, exclude_categories=())
_texts = st.one_of(
    st.text(_characters, min_size=25, max_size=60),
    st.text(st.sampled_from('ab"\\\n\r\t\b\f\x1e\x1f\x7f\x00é日\U0001f600\ud800'), min_size=30),
    st.sampled_from([PLAIN, ESCAPES, f'{PLAIN}","{PLAIN}', "53" * 20, "\U0001f600" * 4_000]),
)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


@given(text=_texts)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_is_read_exactly_wherever_it_stands(agent, store, text):
    store.clear(agent)
    payloads = [user(text), user([{"type": "text", "text": text}]), {**user(text), text: [text]}]
    store.append_many(agent, payloads)
    rows = SessionMessage.objects.order_by("message_id")

    assert exactly(store.payloads(agent)) == exactly(payloads)
    assert exactly(list(rows.values_list("message", flat=True))) == exactly(payloads)
    assert exactly([row.message for row in rows]) == exactly(payloads)
    sizes = [len(exact_json.dumps(payload).encode()) for payload in payloads]
    assert list(rows.values_list(OctetLength(PAYLOAD_TEXT), flat=True)) == sizes
    assert exactly(store.pop(agent)) == exactly(payloads[-1])


def test_payloads_are_searched_whole(store, agent):
    store.append_many(agent, [user(PLAIN), user(ESCAPES)])
    found = SessionMessage.objects.filter

    assert found(message__contains='"content":"the words').count() == 1
    assert found(message__contains=r"lines\n\n* with \"quotes\"").count() == 1
    assert found(text__contains='with "quotes"').count() == 1
