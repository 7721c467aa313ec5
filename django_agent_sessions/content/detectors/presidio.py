"""Microsoft's Presidio, without its language models: https://microsoft.github.io/presidio/."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import MissingDependencyError

# Presidio's names of kinds that also have a detector here.
_KINDS = {
    "CREDIT_CARD": "card",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "PHONE_NUMBER": "phone",
    "US_SSN": "us_ssn",
}


class Presidio:
    """Presidio's patterns for English texts. Names of people need a model and are not found."""

    name = "presidio"
    label = _("Presidio")
    needs = ("presidio_analyzer", "presidio-analyzer", "presidio")

    def __init__(self, score: float = 0.4, without: Collection[str] = ("DATE_TIME", "URL")) -> None:
        self.score = score
        self.without = without

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        for found in self._analyzer.analyze(text, language="en", score_threshold=self.score):
            if found.entity_type not in self.without:
                yield (
                    found.start,
                    found.end,
                    _KINDS.get(found.entity_type, found.entity_type.lower()),
                )

    @cached_property
    def _analyzer(self) -> Any:
        """Created on first use: it takes seconds."""
        try:
            presidio = importlib.import_module("presidio_analyzer")
            engines = importlib.import_module("presidio_analyzer.nlp_engine")
        except ImportError:
            raise MissingDependencyError("presidio-analyzer", extra="presidio") from None
        provider = engines.NlpEngineProvider(
            nlp_configuration={
                "nlp_engine_name": "no_op",
                "models": [{"lang_code": "en", "model_name": "none"}],
            }
        )
        return presidio.AnalyzerEngine(
            nlp_engine=provider.create_engine(), supported_languages=["en"]
        )
