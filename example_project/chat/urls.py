"""The page of the chat, and a deep link to each."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "chat"
urlpatterns = [
    path("", views.page, name="home"),
    path("chat/<uuid:pk>", views.page, name="chat"),
]
