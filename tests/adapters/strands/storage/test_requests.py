"""A bucket is asked for no more than needed."""

from __future__ import annotations

from tests.adapters.strands.layouts import Bucket, agent


class TestRequests:
    def test_a_bucket_is_asked_for_no_more_than_needed(self, bucket):
        place = Bucket(bucket)
        folder = "sessions/session_s"
        with bucket.requests() as sent:
            first = agent(place.ours("s"), "One.")
            assert sent == [
                f"GET {folder}/session.json",
                f"HEAD {folder}/session.json",
                f"PUT {folder}/session.json",
                f"HEAD {folder}/agents/agent_a/agent.json",
                f"PUT {folder}/agents/agent_a/agent.json",
            ]
            sent.clear()
            first("First")
            assert [r for r in sent if "/messages/" in r] == [
                f"{method} {folder}/agents/agent_a/messages/message_{number}.json"
                for number in (0, 1)
                for method in ("HEAD", "PUT")
            ]
            sent.clear()
            agent(place.ours("s"))
            listing, *messages = sorted(sent[2:])

        assert listing.startswith("GET ?list-type=2")
        assert "prefix=sessions%2Fsession_s%2Fagents%2Fagent_a%2Fmessages%2F&" in listing
        assert messages == [
            f"GET {folder}/agents/agent_a/messages/message_{number}.json" for number in (0, 1)
        ]
