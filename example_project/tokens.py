"""Tokens for clients that show one instead of a cookie, such as assistant-ui's.

A token is a JWT (RFC 7519) with ``sub`` and ``exp``, signed by HMAC-SHA256 with a key made of
``SECRET_KEY``. The standard library is enough for that; a larger site takes a package for it.
"""

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
from rest_framework.request import Request

LIFETIME = 600
"""For how many seconds a token is good. It cannot be taken back, so that they are few."""

_HEADER = {"alg": "HS256", "typ": "JWT"}
_KEY_OF = b"example_project.tokens"


class BearerAuthentication(BaseAuthentication):
    """Believes ``Authorization: Bearer <token>`` if the token is ours, and not too old."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        """Finds the user.

        Args:
            request: The request.

        Returns:
            The user and the token; None if no token is shown.

        Raises:
            AuthenticationFailed: The token is not ours, too old, or of nobody.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        user = get_user_model().objects.filter(pk=_subject(token), is_active=True).first()
        if user is None:
            raise AuthenticationFailed("The token is for nobody; log in again.")
        return user, token

    def authenticate_header(self, request: Request) -> str:
        """Names the scheme."""
        return "Bearer"


def token_for(user: Any, lifetime: float = LIFETIME) -> str:
    """Makes a token.

    Args:
        user: Whose it is.
        lifetime: For how many seconds it is good.

    Returns:
        The token.
    """
    claims = {"sub": str(user.pk), "exp": int(time.time() + lifetime)}
    body = f"{_encoded(json.dumps(_HEADER).encode())}.{_encoded(json.dumps(claims).encode())}"
    return f"{body}.{_signature(body)}"


def _subject(token: str) -> str:
    body, _, signature = token.rpartition(".")
    # Nothing is read of what is not ours, its algorithm neither.
    if not hmac.compare_digest(signature.encode(), _signature(body).encode()):
        raise AuthenticationFailed("The token is not one of this site; ask for a new one.")
    claims = json.loads(base64.urlsafe_b64decode(body.partition(".")[2] + "=="))
    if claims["exp"] < time.time():
        raise AuthenticationFailed("The token is too old; ask for a new one.")
    return str(claims["sub"])


def _signature(body: str) -> str:
    # The secret signs other things, too: what is signed here means nothing there.
    key = hashlib.sha256(_KEY_OF + settings.SECRET_KEY.encode()).digest()
    return _encoded(hmac.new(key, body.encode(), hashlib.sha256).digest())


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
