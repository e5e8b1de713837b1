"""What a question is about."""

from __future__ import annotations

import pytest

from telegram_assistant.language.stopwords import subject_of, without_news

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "question, subject, weighed",
    [
        ("Что нового на рынках?", "рынках", "Что на рынках"),
        ("Расскажи про выставку", "выставку", "про выставку"),
        ("What happened in Samara?", "Samara", "What in Samara"),
        ("Кто выиграл матч?", "выиграл матч", "Кто выиграл матч"),
        ("Новый закон и новостях", "Новый закон новостях", "Новый закон и новостях"),
        ("Что нового?", "", "Что нового?"),
        ("What's new today?", "", "What's new today?"),
        ("???", "", "???"),
    ],
)
def test_words_that_only_ask_are_told_apart(question: str, subject: str, weighed: str) -> None:
    assert subject_of(question) == subject
    assert without_news(question) == weighed
