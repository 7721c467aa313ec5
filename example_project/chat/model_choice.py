"""Which model the agents run on: a real one where the environment has one, else an offline one.

In this order: ``OPENAI_API_KEY`` (and ``OPENAI_MODEL``), AWS credentials in the environment
(Bedrock, Strands only), ``OLLAMA_HOST`` (and ``OLLAMA_MODEL``).
"""

from __future__ import annotations

import os

from agents import Model as OpenAIAgentsModel
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
from openai import AsyncOpenAI
from strands.models.model import Model as StrandsModel

from .offline.openai_model import OfflineOpenAIModel
from .offline.rules import Rules, concierge
from .offline.strands_model import OfflineStrandsModel

_OPENAI_MODEL = "gpt-4.1-mini"
_OLLAMA_MODEL = "llama3.2"
AWS_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables by which AWS credentials are given."""


def choose_strands_model(offline: Rules = concierge) -> StrandsModel:
    """Chooses the model of a Strands agent.

    Args:
        offline: What the offline model says.

    Returns:
        OpenAI's, Bedrock's, Ollama's, or the offline model.
    """
    if os.environ.get("OPENAI_API_KEY"):
        from strands.models.openai import OpenAIModel

        return OpenAIModel(model_id=_openai_model())
    if _has_aws_credentials():
        from strands.models.bedrock import BedrockModel

        return BedrockModel()
    if os.environ.get("OLLAMA_HOST"):
        # By Ollama's OpenAI interface, which needs no package that is not here already.
        from strands.models.openai import OpenAIModel

        arguments = {"base_url": _ollama_url(), "api_key": "ollama"}
        return OpenAIModel(client_args=arguments, model_id=_ollama_model())
    return OfflineStrandsModel(offline)


def choose_openai_model(offline: Rules = concierge) -> OpenAIAgentsModel:
    """Chooses the model of an OpenAI agent.

    Args:
        offline: What the offline model says.

    Returns:
        OpenAI's, Ollama's, or the offline model.
    """
    if os.environ.get("OPENAI_API_KEY"):
        return OpenAIResponsesModel(model=_openai_model(), openai_client=AsyncOpenAI())
    if os.environ.get("OLLAMA_HOST"):
        client = AsyncOpenAI(base_url=_ollama_url(), api_key="ollama")
        return OpenAIChatCompletionsModel(model=_ollama_model(), openai_client=client)
    return OfflineOpenAIModel(offline)


def describe_models() -> str:
    """Says which models are used.

    Returns:
        One sentence.
    """
    if os.environ.get("OPENAI_API_KEY"):
        return f"Models: OpenAI's {_openai_model()} (OPENAI_API_KEY is set)."
    ollama = f"Ollama's {_ollama_model()} at {_ollama_url()} (OLLAMA_HOST is set)"
    if _has_aws_credentials():
        other = ollama if os.environ.get("OLLAMA_HOST") else "the offline model"
        return f"Models: Bedrock for Strands (AWS credentials are set), {other} for OpenAI."
    if os.environ.get("OLLAMA_HOST"):
        return f"Models: {ollama}."
    return (
        "Models: offline, answering by rules from the conversation they are given.\n"
        "OPENAI_API_KEY, AWS credentials or OLLAMA_HOST in the environment switch to real ones."
    )


def _has_aws_credentials() -> bool:
    return any(os.environ.get(name) for name in AWS_CREDENTIALS)


def _openai_model() -> str:
    return os.environ.get("OPENAI_MODEL", _OPENAI_MODEL)


def _ollama_model() -> str:
    return os.environ.get("OLLAMA_MODEL", _OLLAMA_MODEL)


def _ollama_url() -> str:
    host = os.environ.get("OLLAMA_HOST", "").rstrip("/")
    return f"{host if '://' in host else f'http://{host}'}/v1"
