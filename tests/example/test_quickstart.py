"""The code in the quickstart runs, on the example's offline models."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.http import Http404, HttpRequest, QueryDict

from example_project import settings as example
from example_project.chat.offline.openai_model import OfflineOpenAIModel
from example_project.chat.offline.strands_model import OfflineStrandsModel
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/quickstart.md").read_text(), re.DOTALL)


def code(model: Any) -> SimpleNamespace:
    """What the page defines."""
    namespace: dict[str, Any] = {}
    # Each SDK's ``Agent`` belongs to the function of its own block.
    for block in BLOCKS:
        if "def " in block:
            before = dict(namespace)
            exec(block, own := {**before, "model": model})  # noqa: S102 - our own page
            namespace |= {n: v for n, v in own.items() if n not in ("model", "__builtins__")}
    return SimpleNamespace(**namespace)


def request_of(user: Any, text: str) -> HttpRequest:
    request = HttpRequest()
    request.method = "POST"
    request.user = user

    async def auser() -> Any:
        return user

    request.auser = auser
    request.POST = QueryDict(urlencode({"text": text}))
    return request


def test_both_views_remember(ada) -> None:
    strands, openai = code(OfflineStrandsModel()), code(OfflineOpenAIModel())
    say_to_openai = async_to_sync(openai.say_to_openai)
    for say in (strands.say_to_strands, say_to_openai):
        session_id = f"talk of {say}"
        say(request_of(ada, "Hello, my name is Ada."), session_id)
        answer = say(request_of(ada, "What did I tell you my name was?"), session_id)
        assert "your name is Ada" in answer.content.decode()
        assert len(strands.history(ada, session_id)) == 4


def test_somebody_elses_session_is_a_404(ada, bob) -> None:
    page = code(OfflineStrandsModel())
    page.say_or_404(request_of(ada, "Hello"), "talk")
    with pytest.raises(Http404):
        page.say_or_404(request_of(bob, "Hello"), "talk")


def test_what_is_taken_back_is_not_known_to_the_next_agent(ada) -> None:
    page = code(OfflineStrandsModel())
    page.say_to_strands(request_of(ada, "My card is 4111 1111 1111 1111."), "talk")
    page.redact(ada, "talk", "4111 1111 1111 1111")

    assert page.history(ada, "talk")[0][2]["content"] == [{"text": "[redacted]"}]
    answer = page.say_to_strands(request_of(ada, "Do you have my card number?"), "talk")
    assert answer.content == b"No, our conversation holds no card number.\n"


def test_the_example_has_the_options_for_sqlite_that_the_page_recommends() -> None:
    settings = next(block for block in BLOCKS if "DATABASES" in block)
    exec(settings, recommended := {"BASE_DIR": ROOT})  # noqa: S102 - our own page
    options = recommended["DATABASES"]["default"]["OPTIONS"]  # type: ignore[index]
    assert options == example.DATABASES["default"]["OPTIONS"]
