"""What a user sends."""

from __future__ import annotations

from django import forms

from . import openai_agents, strands_agents

AGENTS = {strands_agents.KIND: "Strands agent", openai_agents.KIND: "OpenAI agent"}
"""Whom one can talk to."""


class MessageForm(forms.Form):
    """A message in a conversation."""

    text = forms.CharField(
        label="Message",
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "Say something …"}),
    )


class NewConversationForm(MessageForm):
    """The first message of a conversation, and whom it is for."""

    field_order = ("title", "agent", "text")

    # Not taken from the message: a title is not redacted with it.
    title = forms.CharField(
        max_length=100,
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "Optional", "autocomplete": "off"}),
    )
    agent = forms.ChoiceField(choices=list(AGENTS.items()))

    def clean_title(self) -> str:
        """Gives a conversation without a title the name of its agent."""
        given: str = self.cleaned_data["title"]
        return given or AGENTS.get(self.data.get("agent", ""), "")
