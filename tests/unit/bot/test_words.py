"""What the bot says exists in both languages and is escaped."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from markupsafe import Markup

from telegram_assistant import bot
from telegram_assistant.bot.words import Say, marked, notes_lines, shortened
from telegram_assistant.domain.query import Note, Trouble
from telegram_assistant.domain.results import Snippet
from telegram_assistant.i18n import LANGUAGES, load_texts
from telegram_assistant.services.bot_state import Expected, language_of

pytestmark = pytest.mark.unit

SOURCE = Path(bot.__file__).parent
SAID = re.compile(r"""say(?:\.plain)?\(\s*f?["']([a-z_{}]+)["']""")
MADE = {"cmd_", "button_", "role_", "note_", "corrected_", "notice_", "give_"}  # keys that are put together


def test_every_text_that_is_said_exists() -> None:
    used = {key for file in SOURCE.glob("*.py") for key in SAID.findall(file.read_text("utf-8"))}
    assert len(used) > 50
    known = {key.removeprefix("bot.") for key in load_texts().keys if key.startswith("bot.")}
    whole = {key for key in used if "{" not in key}
    assert sorted(whole - known) == []
    assert {key.partition("{")[0] for key in used - whole} <= MADE
    for trouble in Trouble:
        assert f"note_{trouble.name.lower()}" in known
    assert {f"give_{one}" for one in Expected} <= known


def test_values_are_escaped_and_markup_is_not() -> None:
    say = Say("en")
    assert say("alert", name="<b>&") == "🔔 <b>&lt;b&gt;&amp;</b>"
    assert say("alert", name=Markup("<i>x</i>")) == "🔔 <b><i>x</i></b>"
    assert say.plain("page", page=3) == "page 3"
    assert Say("ru")("posts", n=5) == "5 постов"


def test_times_are_told_with_their_zone() -> None:
    moment = datetime(2026, 11, 1, 9, 5, tzinfo=UTC)
    assert [Say(language).when(moment) for language in LANGUAGES] == ["2026-11-01 09:05 UTC", "01.11.2026 09:05 UTC"]


def test_what_was_looked_for_is_bold() -> None:
    snippet = Snippet("<oil> & gas", spans=((1, 4), (8, 11)), cut_before=True)
    assert marked(snippet) == "…&lt;<b>oil</b>&gt; &amp; <b>gas</b>"


def test_remarks_are_in_the_readers_language() -> None:
    notes = (Note(Trouble.NO_DATE, "<someday>"),)
    assert "&lt;someday&gt; — не дата" in notes_lines(notes, "", Say("ru"))
    assert "&lt;someday&gt; is no date" in notes_lines(notes, "away", Say("en"))


def test_shortened() -> None:
    assert shortened("a  b\n c", 10) == "a b c"
    assert shortened("a" * 20, 10) == "a" * 9 + "…"
    assert shortened("\0\ud800x", 10) == "\ufffdx"


@pytest.mark.parametrize(
    "told,spoken",
    [("ru", "ru"), ("ru-RU", "ru"), ("uk", "ru"), ("en", "en"), ("de-AT", "en"), (None, "ru"), ("", "ru")],
)
def test_languages(told: str | None, spoken: str) -> None:
    """Its users read Russian first, English second (SPEC 8)."""
    assert language_of(told) == spoken
