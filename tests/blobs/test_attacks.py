"""What somebody might try, to reach a file that is not theirs or to have a browser run one."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Blob, BlobReference, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.admin.people import grant
from tests.rest.conftest import Talk, client_of
from tests.sealed import update_content

from .messages import PNG, document, image, media, picture, user

pytestmark = pytest.mark.django_db

HTML = b"<!doctype html><script>alert(1)</script>" + bytes(9000)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>" + bytes(9000)
PDF = b"%PDF-1.7 /OpenAction /JavaScript" + bytes(9000)


@pytest.fixture
def data() -> bytes:
    return picture(20_000)


@pytest.fixture
def victim(ada, blob_folder, data) -> str:
    """The URL of another's message with a picture."""
    return str(Talk(ada, session_id="victims").say(user(image(data))))


@pytest.fixture
def attacker(bob):
    return client_of(bob)


@pytest.fixture
def talk(bob, blob_folder) -> Talk:
    return Talk(bob)


@pytest.mark.parametrize("content", [HTML, SVG, PDF])
@pytest.mark.parametrize("form", ["png", "html", "svg", "svg+xml", "../../x", "png\r\nX: y"])
def test_nothing_that_could_run_is_ever_shown(attacker, talk, content, form):
    for block in (image(content, form), document(content, form)):
        answer = media(attacker, talk.say(user(block)))
        assert answer.all == content
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"].startswith("attachment; ")
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert "X" not in answer.headers


def test_a_data_url_that_lies_about_its_type_is_a_download(attacker, bob, blob_folder):
    store = SessionStore(owner=bob)
    agent = store.agents.open(store.create("lies"), "default", dialect="openai")
    url = "data:image/png;x=\r\nSet-Cookie: a=b;base64," + base64.b64encode(HTML).decode()
    block = {"type": "input_image", "image_url": url}
    key = store.append(agent, {"role": "user", "content": [block]}).id
    answer = media(attacker, f"/api/messages/{key}/", "content", 0)
    assert answer.all == HTML
    assert answer["Content-Type"] == "application/octet-stream"
    assert "Set-Cookie" not in str(answer.headers)


def test_what_begins_as_a_picture_is_pixels_and_nothing_else(attacker, talk):
    answer = media(attacker, talk.say(user(image(PNG + HTML))))
    assert answer["Content-Type"] == "image/png"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize(
    "name", ["a\r\nSet-Cookie: x=1", 'a"; filename="b.html', "../../etc/passwd", "ж\u202egpj.exe"]
)
def test_a_name_that_somebody_chose_is_in_no_header(attacker, talk, name):
    said = talk.say(user(document(PDF, name=name)))
    answer = media(attacker, said)
    key = said.split("/")[3]
    assert answer["Content-Disposition"] == f'attachment; filename="{key}.pdf"'
    assert "Set-Cookie" not in answer.headers
    assert attacker.get(said).json()["parts"][1]["name"]


@pytest.mark.parametrize(
    "name", ["../../x", "..\\..\\x", "/etc/x", "a/../../b", "%2e%2e%2f", "a\u0301/.."]
)
def test_no_id_leads_a_file_out_of_its_folder(
    attacker, bob, name, blob_folder, stored, tmp_path, data
):
    talk = Talk(bob, session_id=name)
    store = SessionStore(owner=bob, namespace=name)
    agent = store.agents.open(store.create(name), name, dialect="strands")
    key = store.append(agent, user(image(data))).id
    assert media(attacker, talk.say(user(image(data)))).all == data
    assert media(attacker, f"/api/messages/{key}/").all == data
    assert len(stored()) == 2
    for file in stored():
        prefix, session, _ = file.relative_to(blob_folder).parts
        assert prefix == "agent_sessions"
        assert session in {str(row.session_id) for row in Blob.objects.all()}
    outside = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(outside) == stored()


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "../outside"])
def test_a_row_that_names_a_file_elsewhere_gives_nothing(attacker, talk, name, blob_folder, data):
    said = talk.say(user(image(data)))
    (blob_folder.parent / "outside").write_bytes(data)
    Blob.objects.update(file=name)
    answer = media(attacker, said)
    assert answer.status_code in (404, 503)
    assert data not in answer.all
    assert b"root:" not in answer.all


def test_nobody_asks_by_a_hash_or_the_id_of_a_file(victim, attacker, talk, data):
    blob = Blob.objects.get()
    own = talk.say({"role": "user", "content": [{"text": "mine"}]})
    for key in (blob.sha256, str(blob.pk), blob.file):
        for path in ((key,), ("$blob", key), ("content", 0, key)):
            assert media(attacker, own, *path).status_code == 404
        assert attacker.get(f"/api/messages/{key}/media/").status_code in (400, 404)
    assert media(attacker, victim).status_code == 404
    assert media(attacker, victim, query={"scope": "all"}).status_code == 404
    uses = BlobReference.objects.get()
    assert media(attacker, f"/api/messages/{uses.pk}/").status_code == 404


def lookalikes(sha256: str) -> list[Any]:
    marker = {"sha256": sha256, "size": 20_000, "media_type": "image/png"}
    return [
        {"$blob": marker},
        {"$$blob": marker},
        {"$blob": {**marker, "prefix": ""}},
        {"$bytes": json.dumps({"$blob": marker})},
        {"$blob": marker, "x": 1},
        json.dumps({"$blob": marker}),
    ]


@pytest.mark.parametrize("number", range(6))
def test_what_an_agent_says_is_never_a_reference(victim, attacker, talk, data, number):
    looks = lookalikes(Blob.objects.get().sha256)[number]
    message = user(image(looks), {"json": looks})
    said = talk.say(message)
    assert talk.store.payloads(talk.agent) == [message]
    assert media(attacker, said).status_code in (200, 404)
    assert data not in media(attacker, said).all
    assert Blob.objects.count() == 1


def test_what_a_client_says_of_a_session_is_never_a_reference(victim, attacker, talk, data):
    looks = lookalikes(Blob.objects.get().sha256)
    answer = attacker.patch(talk.url, {"metadata": {"a": looks}}, format="json")
    assert answer.status_code == 200
    assert attacker.get(talk.url).json()["metadata"] == {"a": looks}


def test_a_reference_to_anothers_file_leads_nowhere(victim, attacker, talk, data):
    theirs = Blob.objects.get()
    reference = BlobRef(theirs.sha256, theirs.size, theirs.media_type)
    with pytest.raises(PayloadError):
        talk.say(user(image(reference)))
    # Nor if it is in the database.
    said = talk.say(user({"text": "x"}))
    row = SessionMessage.objects.filter(session=talk.session.id)
    update_content(row, {"message": user(image(reference))})
    answer = media(attacker, said)
    assert answer.status_code == 404
    assert answer.json()["code"] == "file_missing"
    # A guess of what another has sounds like one that nobody has.
    update_content(row, {"message": user(image(replace(reference, sha256="0" * 64)))})
    unknown = media(attacker, said)
    assert unknown.content == answer.content


def test_the_same_file_of_two_people_is_two_and_tells_neither_of_the_other(
    victim, attacker, talk, data, stored
):
    said = talk.say(user(image(data)))
    assert len(stored()) == 2
    mine, theirs = (
        Blob.objects.get(session=talk.session.id),
        Blob.objects.exclude(session=talk.session.id).get(),
    )
    etag = media(attacker, said)["ETag"]
    assert theirs.pk.hex not in etag
    assert mine.file != theirs.file
    assert (
        media(attacker, victim, headers={"If-None-Match": f'"{theirs.pk.hex}"'}).status_code == 404
    )


def test_a_message_of_another_session_is_not_reached_under_an_own_one(
    victim, talk, bob, data, client
):
    bob.is_staff = True
    bob.save()
    grant(bob, "view_session", "read_transcript")
    client.force_login(bob)
    url = reverse("admin:agent_sessions_session_change", args=[talk.session.id])
    key = victim.split("/")[3]
    url = f"{url.removesuffix('change/')}messages/{key}/"
    assert media(client, url).status_code == 404
    assert media(client, url.replace(key, str(uuid4()))).status_code == 404
