"""Usage in answers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class AgentUsageSerializer(serializers.Serializer[Any]):
    """How much one agent said."""

    agent = serializers.CharField(help_text="The id of the agent.")
    messages = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()


class UsageSerializer(serializers.Serializer[Any]):
    """How much was said in a session."""

    messages = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    agents = AgentUsageSerializer(many=True)
