"""A bucket is asked for no more than needed; after a write, for the size of what is stored."""

from __future__ import annotations

from tests.adapters.strands.layouts import Bucket, agent


class TestRequests:
    def test_a_bucket_is_asked_for_no_more_than_needed(self, bucket):
        place = Bucket(bucket)
        folder = "sessions/session_s"
        with bucket.requests() as sent:
            first = agent(place.ours("s"), "One.")
            assert sent == [
                f"{method} {folder}/{name}.json"
                for name, methods in (
                    ("session", ("GET", "HEAD", "PUT", "HEAD")),
                    ("agents/agent_a/agent", ("HEAD", "PUT", "HEAD")),
                )
                for method in methods
            ]
            sent.clear()
            first("First")
            assert [r for r in sent if "/messages/" in r] == [
                f"{method} {folder}/agents/agent_a/messages/message_{number}.json"
                for number in (0, 1)
                for method in ("HEAD", "PUT", "HEAD")
            ]
            sent.clear()
            agent(place.ours("s"))
            messages = sorted(r for r in sent if "/messages/" in r)
            listings = [r for r in sent if r.startswith("GET ?")]

        assert len(listings) == 1
        assert "agent_a%2Fmessages%2F&" in listings[0]
        assert messages == [
            f"GET {folder}/agents/agent_a/messages/message_{number}.json" for number in (0, 1)
        ]
