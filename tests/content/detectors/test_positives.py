"""What is made after the rules is found, wherever it stands, with exactly its boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_agent_sessions.content.detectors import Detection, detect, load

from .made import KEYS, MADE, NAMED, NAMED_SECRETS, PLACES, drawn, placed


@pytest.mark.parametrize("name", sorted(MADE))
@settings(max_examples=7 * settings().max_examples)
@given(data=st.data())
def test_everything_made_after_the_rules_is_found_with_exactly_its_boundaries(name, data):
    thing = data.draw(MADE[name])
    text, start, end = placed(thing, data.draw(PLACES))
    assert Detection(start, end, name) in detect(text, load([name]))


@pytest.mark.parametrize("provider", sorted(KEYS))
@settings(max_examples=30)
@given(data=st.data())
def test_the_keys_of_each_provider_are_found(provider, data):
    text, start, end = placed(data.draw(drawn(KEYS[provider])), data.draw(PLACES))
    assert Detection(start, end, "api_key") in detect(text, load(["api_key"]))


@pytest.mark.parametrize("context", sorted(NAMED))
@settings(max_examples=30)
@given(data=st.data())
def test_secrets_without_a_form_are_found_behind_their_names(context, data):
    before, make, after = NAMED[context]
    key = data.draw(drawn(make))
    assert Detection(len(before), len(before) + len(key), "api_key") in detect(
        f"{before}{key}{after}\n", load(["api_key"])
    )


@settings(max_examples=100)
@given(NAMED_SECRETS, st.integers(1, 2), st.booleans())
def test_secrets_are_found_behind_their_names_in_quoted_json(secret, quotes, ascii_only):
    before, key, after = secret
    text, start, end = placed(key, ("{\n" + before, after + "\n}", quotes, ascii_only))
    assert Detection(start, end, "api_key") in detect(text, load(["api_key"]))


@pytest.mark.parametrize(
    "iban",
    [
        "GB29NWBK60161331926819",
        "DE89370400440532013000",
        "FR1420041010050500013M02606",
        "CH9300762011623852957",
        "NL91ABNA0417164300",
        "NO9386011117947",
        "MT84MALT011000012345MTLCAST001S",
        "LC55HEMM000100010012001200023015",
        "SE4550000000058398257466",
        "PL61109010140000071219812874",
        "SA0380000000608010167519",
        "TR330006100519786457841326",
        "BR9700360305000010009795493P1",
        "KW81CBKU0000000000001234560101",
        "ES9121000418450200051332",
        "IT60X0542811101000000123456",
        "BE68539007547034",
        "AT611904300234573201",
        "PT50000201231234567890154",
        "UA213223130000026007233566001",
    ],
)
def test_the_examples_of_the_iban_registry_are_found(iban):
    assert detect(f"to {iban}, please", load(["iban"])) == [Detection(3, 3 + len(iban), "iban")]


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4242424242424242",
        "5555555555554444",
        "2223003122003222",
        "378282246310005",
        "6011111111111117",
        "30569309025904",
        "3566002020360505",
        "6200000000000005",
        "4000056655665556",
    ],
)
def test_the_test_cards_of_payment_providers_are_found(number):
    assert detect(f"card {number}.", load(["card"])) == [Detection(5, 5 + len(number), "card")]


@pytest.mark.parametrize("second", ["5555 5555 5555 4444", "5555555555554444", "3782 822463 10005"])
@pytest.mark.parametrize("first", ["4111 1111 1111 1111", "4111-1111-1111-1111"])
def test_each_of_several_cards_in_a_row_is_found(first, second):
    text = f"{first} {second} {second}"
    found = [text[each.start : each.end] for each in detect(text, load(["card"]))]
    assert found == [first, second, second]


@settings(max_examples=100)
@given(MADE["private_key"], st.data(), st.sampled_from(["", '"', "\n"]), st.integers(0, 2))
def test_private_keys_that_were_cut_off_are_found_to_their_end(key, data, after, quotes):
    body = key.index("\n\n") + 2 if "\n\n" in key else key.index("\n") + 1
    cut = data.draw(st.integers(body + 40, key.index("-----END")))
    text, start, end = placed(key[:cut].rstrip(), ("cat id_rsa\n", after, quotes, True))
    assert detect(text, load(["private_key"])) == [Detection(start, end, "private_key")]
