"""Detectors are found by their names."""

from __future__ import annotations

import importlib.util

import pytest
from django.utils import translation

from django_agent_sessions.content.detectors import (
    Detection,
    available,
    detect,
    labels,
    load,
    names,
)
from django_agent_sessions.content.detectors.addresses import Phone
from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError

BUILT_IN = ["email", "card", "iban", "us_ssn", "phone", "ip", "private_key", "jwt", "api_key"]


class Ticket:
    """Numbers of tickets."""

    name = "ticket"

    def find(self, text):
        at = text.find("T-1")
        return [(at, at + 3)] if at >= 0 else []


german_phone = Phone("DE")
nameless = object()


class Blind:
    name = "blind"


class Named:
    name = "two words"

    def find(self, text):
        return []


@pytest.fixture
def detectors(settings):
    def configure(*objects):
        settings.AGENT_SESSIONS = {"DETECTORS": [f"{__name__}.{name}" for name in objects]}

    return configure


@pytest.fixture
def without(monkeypatch):
    """Nothing of that name is installed."""

    def hide(module):
        real = importlib.util.find_spec

        def find_spec(name, package=None):
            return None if name == module else real(name, package)

        monkeypatch.setattr(importlib.util, "find_spec", find_spec)

    return hide


def test_the_built_in_ones_are_available():
    assert [d.name for d in available()] == BUILT_IN
    assert names() == [*BUILT_IN, "presidio"]


def test_they_are_loaded_in_the_order_of_the_names():
    assert [d.name for d in load(["ip", "email"])] == ["ip", "email"]
    assert load([]) == []


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"Unknown detector 'e-mail'.*email, card, iban"):
        load(["e-mail"])


def test_one_from_the_settings_is_found_by_its_name(detectors):
    detectors("Ticket")
    assert names() == [*BUILT_IN, "ticket", "presidio"]
    assert detect("see T-1", available()) == [Detection(4, 7, "ticket")]
    assert [d.name for d in load(["ticket"])] == ["ticket"]


def test_an_instance_takes_the_place_of_a_built_in_one_of_its_name(detectors):
    text = "Ruf an: 030 901820"
    assert detect(text, load(["phone"])) == []
    detectors("german_phone")
    assert detect(text, load(["phone"])) == [Detection(8, 18, "phone")]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing", "cannot be imported"),
        ("nameless", "must have a name"),
        ("Named", "must have a name"),
        ("Blind", "has no method find"),
    ],
)
def test_what_is_no_detector_is_refused_with_its_path(detectors, name, problem):
    detectors(name)
    with pytest.raises(ConfigurationError, match=rf"{name}' {problem}"):
        available()


def test_without_phonenumbers_the_others_work_and_phone_says_what_to_install(without):
    without("phonenumbers")
    assert [d.name for d in available()] == [name for name in BUILT_IN if name != "phone"]
    assert "phone" in names()
    assert "phone" not in labels()
    with pytest.raises(MissingDependencyError, match=r"django-agent-sessions\[detectors\]"):
        load(["phone"])


def test_without_presidio_it_says_what_to_install(without):
    without("presidio_analyzer")
    assert "presidio" not in labels()
    with pytest.raises(MissingDependencyError, match=r"django-agent-sessions\[presidio\]"):
        load(["presidio"])


def test_each_has_a_label_for_people(detectors):
    detectors("Ticket")
    with translation.override("en"):
        shown = labels()
    assert shown["us_ssn"] == "US social security number"
    assert shown["ticket"] == "ticket"
    assert set(BUILT_IN) < set(shown)
