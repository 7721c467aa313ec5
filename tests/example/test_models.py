from __future__ import annotations

import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner
from strands import Agent as StrandsAgent
from strands.models.bedrock import BedrockModel
from strands.models.openai import OpenAIModel

from example_project.chat import model_choice, openai_agents
from example_project.chat.offline.openai_model import OfflineOpenAIModel
from example_project.chat.offline.strands_model import OfflineStrandsModel


def test_without_any_key_the_models_are_offline() -> None:
    assert isinstance(model_choice.choose_strands_model(), OfflineStrandsModel)
    assert isinstance(model_choice.choose_openai_model(), OfflineOpenAIModel)
    assert "offline" in model_choice.describe_models()


def test_an_openai_key_comes_first(monkeypatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_PROFILE", "OLLAMA_HOST"):
        monkeypatch.setenv(name, "given")
    monkeypatch.setenv("OPENAI_MODEL", "gpt-of-choice")

    strands = model_choice.choose_strands_model()
    assert isinstance(strands, OpenAIModel)
    assert strands.get_config()["model_id"] == "gpt-of-choice"
    assert isinstance(model_choice.choose_openai_model(), OpenAIResponsesModel)
    assert "OpenAI's gpt-of-choice" in model_choice.describe_models()


def test_aws_credentials_choose_bedrock_for_strands(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "given")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "given")

    assert isinstance(model_choice.choose_strands_model(), BedrockModel)
    assert isinstance(model_choice.choose_openai_model(), OfflineOpenAIModel)
    assert "Bedrock for Strands" in model_choice.describe_models()


@pytest.mark.parametrize("host", ["ollama.test:11434", "http://ollama.test:11434/"])
def test_an_ollama_host_serves_both(monkeypatch, host) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)

    strands = model_choice.choose_strands_model()
    assert isinstance(strands, OpenAIModel)
    assert strands.client_args["base_url"] == "http://ollama.test:11434/v1"
    openai = model_choice.choose_openai_model()
    assert isinstance(openai, OpenAIChatCompletionsModel)
    assert "http://ollama.test:11434/v1" in model_choice.describe_models()


async def test_the_offline_openai_model_streams_too() -> None:
    agent = Agent(name="concierge", tools=[openai_agents.weather], model=OfflineOpenAIModel())

    result = Runner.run_streamed(
        agent, "What is the weather in Oslo?", run_config=RunConfig(tracing_disabled=True)
    )
    kinds = [event.type async for event in result.stream_events()]
    assert result.final_output == "The weather in Oslo: snow, -3 °C."
    assert "raw_response_event" in kinds
    assert result.context_wrapper.usage.output_tokens > 0


async def test_both_offline_models_can_think_before_they_answer() -> None:
    said = "Please think about my move to Lisbon"
    strands = StrandsAgent(model=OfflineStrandsModel(), callback_handler=None)
    thought, text = (await strands.invoke_async(said)).message["content"]
    assert "slept on" in thought["reasoningContent"]["reasoningText"]["text"]
    assert "wait until tomorrow" in text["text"]

    agent = Agent(name="concierge", model=OfflineOpenAIModel())
    result = await Runner.run(agent, said, run_config=RunConfig(tracing_disabled=True))
    assert [item.type for item in result.new_items] == ["reasoning_item", "message_output_item"]
    assert "wait until tomorrow" in result.final_output
