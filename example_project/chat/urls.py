"""The pages of the chat."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "chat"
urlpatterns = [
    path("", views.conversations, name="conversations"),
    path("new/", views.new, name="new"),
    path("conversations/<uuid:pk>/", views.conversation, name="conversation"),
]
