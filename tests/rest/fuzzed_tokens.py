"""A login by header, and its place in the OpenAPI document: a user's name is the token."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Any) -> tuple[Any, str] | None:
        given = request.headers.get("Authorization")
        if given is None:
            return None
        kind, _, name = given.partition(" ")
        users = get_user_model().objects
        user = users.filter(username=name).first() if name.isascii() and name.isalnum() else None
        if kind != "Bearer" or user is None:
            raise AuthenticationFailed
        return user, name

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
