"""Where a page gets the token that its client of assistant-ui shows."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from .tokens import LIFETIME, token_for


class TokenView(APIView):
    """Gives whoever is logged in by Django's cookie a token for themselves."""

    # A token is no way to the next one.
    authentication_classes = (SessionAuthentication,)
    permission_classes = (IsAuthenticated,)
    schema = None

    def post(self, request: Request) -> Response:
        """Makes a token.

        Args:
            request: The request.

        Returns:
            ``{"token", "expires_in"}``.
        """
        made = {"token": token_for(request.user), "expires_in": LIFETIME}
        return Response(made, headers={"Cache-Control": "no-store"})


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # it registers
    """Describes the tokens in the API's schema."""

    target_class = "example_project.tokens.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Names the scheme as OpenAPI does."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
