"""Models that need no network.

They plug in where a provider's model does, so that the SDKs run all of their own code: the loop,
the tools, the sessions. What they say follows from the conversation they are given and from
nothing else, so that a conversation that was not restored shows at once.
"""
