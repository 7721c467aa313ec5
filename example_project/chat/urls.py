"""The page of the chat, and a deep link to each."""

from __future__ import annotations

from django.urls import path
from django.views.i18n import JavaScriptCatalog

from . import views

app_name = "chat"
WORDS = JavaScriptCatalog.as_view(packages=["example_project.chat"])
"""The translations of what the page's scripts say, and Django's ``gettext`` for them."""

urlpatterns = [
    path("", views.page, name="home"),
    path("chat/<uuid:pk>", views.page, name="chat"),
    path("chat/words.js", WORDS, name="words"),
]
