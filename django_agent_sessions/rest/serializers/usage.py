"""Serializers of usage."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class AgentUsageSerializer(serializers.Serializer[Any]):
    """The usage of one agent."""

    agent = serializers.CharField(help_text="The id of the agent.")
    messages = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()


class UsageSerializer(serializers.Serializer[Any]):
    """The usage of a session."""

    messages = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    agents = AgentUsageSerializer(many=True)
