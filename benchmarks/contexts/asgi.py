"""The application for ASGI servers: views, and a WebSocket of Channels."""

from __future__ import annotations

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer, WebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.db import transaction
from django.urls import path

http = get_asgi_application()

from .agents import asay, declared, say


class AsyncConsumer(AsyncWebsocketConsumer):
    """Answers each text with what an agent says."""

    async def receive(self, text_data: str | None = None, bytes_data: Any = None) -> None:
        names = self.scope["url_route"]["kwargs"]
        await self.send(await asay(names["sdk"], names["session_id"], text_data or ""))


class SyncConsumer(WebsocketConsumer):
    """The same in a transaction, which is rolled back for the kind ``undo``."""

    def receive(self, text_data: str | None = None, bytes_data: Any = None) -> None:
        names = self.scope["url_route"]["kwargs"]
        undo = names["kind"] == "undo"
        with transaction.atomic():
            # Without the declaration, a sync tool that cannot be proved to be waited for raises.
            if undo:
                answer = say(names["sdk"], names["session_id"], text_data or "")
                transaction.set_rollback(True)
            else:
                with declared(names["sdk"]):
                    answer = say(names["sdk"], names["session_id"], text_data or "")
        self.send("undone" if undo else answer)


application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": URLRouter(
            [
                path("async/<sdk>/<session_id>", AsyncConsumer.as_asgi(), {"kind": "async"}),
                path("atomic/<sdk>/<session_id>", SyncConsumer.as_asgi(), {"kind": "atomic"}),
                path("undo/<sdk>/<session_id>", SyncConsumer.as_asgi(), {"kind": "undo"}),
            ]
        ),
    }
)
