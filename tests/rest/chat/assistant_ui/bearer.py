"""People who show a signed token, as assistant-ui's client does: JWT by HMAC, from the library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed


class BearerAuthentication(BaseAuthentication):
    """Believes ``Authorization: Bearer <token>`` if the token is signed by us and not too old."""

    def authenticate(self, request: Any) -> tuple[Any, str] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer":
            return None
        claims = _claims(token)
        user = get_user_model().objects.filter(pk=claims["sub"], is_active=True).first()
        if user is None:
            raise AuthenticationFailed("The token is for nobody.")
        return user, token

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


def token_for(user: Any, lifetime: float = 600) -> str:
    """Makes a token."""
    header = _encoded({"alg": "HS256", "typ": "JWT"})
    body = f"{header}.{_encoded({'sub': str(user.pk), 'exp': int(time.time() + lifetime)})}"
    return f"{body}.{_signature(body)}"


def _claims(token: str) -> Any:
    body, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body).encode()):
        raise AuthenticationFailed("The token is not signed by us.")
    payload = body.partition(".")[2]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    if claims["exp"] < time.time():
        raise AuthenticationFailed("The token is too old.")
    return claims


def _signature(body: str) -> str:
    key = settings.SECRET_KEY.encode()
    return _base64(hmac.new(key, body.encode(), hashlib.sha256).digest())


def _encoded(value: Any) -> str:
    return _base64(json.dumps(value).encode())


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
