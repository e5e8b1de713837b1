"""Dialogues: each command of SPEC 8, buttons, plain text, what is unknown; in both languages, escaped, per tenant."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.bot.entry import COMMANDS
from tests.integration.bot.bot_api import BotApi, Person

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("bot")]

Town = Any  # of a conftest.py, which cannot be imported
Link = Any


async def test_the_menu_of_telegram_lists_every_command_in_both_languages(api: BotApi) -> None:
    """SPEC 8: the names are fixed."""
    await api.calls.until("setMyCommands", 2)
    names = "/start /help /menu /login /add_channel /my_channels /ask /search /recommend /digest /trends /subscription"
    assert [f"/{one['command']}" for one in api.commands[""]] == [*names.split(), "/feedback", "/admin"]
    assert [one["command"] for one in api.commands["ru"]] == list(COMMANDS)
    assert api.commands["ru"][0]["description"] == "Начать"


async def test_start_greets_with_the_menu(ann: Person) -> None:
    hello = await ann.asks("/start")
    assert "Hello, admin-" in hello.text
    assert [hello.has_button(words) for words in ("Search", "Ask", "Digest", "Trends", "My channels")] == [True] * 5
    menu = await ann.asks("/menu")
    assert menu.buttons == hello.buttons


async def test_help_names_what_one_may_do(ann: Person, town: Town, link: Link) -> None:
    shown = (await ann.asks("/help")).text
    assert "@of_a_test_bot words" in shown
    assert [name for name in COMMANDS if f"/{name}" not in shown] == []
    member = await link(town.member, 112)
    assert "/admin" not in (await member.asks("/help")).text


async def test_it_speaks_the_language_of_the_application_until_another_is_chosen(bob: Person) -> None:
    hello = await bob.asks("/start")
    assert "Здравствуйте" in hello.text
    toast = await bob.presses(hello, "English")
    assert await bob.toast(toast) == "I speak English now."
    assert hello.text == "What shall it be?"
    assert "Hello" in (await bob.asks("/start")).text


async def test_plain_text_is_a_question_answered_with_sources(ann: Person, town: Town) -> None:
    await town.archive.post(1, "The new bridge over the river was opened on Monday by the mayor & co.")
    answer = await ann.asks("When was the new bridge over the river </a><b> opened?")
    assert "opened on Monday" in answer.text
    assert "mayor & co" in answer.text
    assert "[1]" in answer.text
    assert set(answer.links) == {"https://t.me/daily_news/1"}
    assert not answer.plain
    same = await ann.asks("/ask When was the new bridge over the river </a><b> opened?")
    assert same.text == answer.text


async def test_what_the_channels_do_not_say_is_not_made_up(ann: Person) -> None:
    assert "Your channels do not say" in (await ann.asks("Who won the cup?")).text


async def test_commands_without_words_ask_for_them(ann: Person, town: Town) -> None:
    await town.archive.post(1, "Oil became dearer.")
    assert "What do you want to know" in (await ann.asks("/ask")).text
    assert "Your channels do not say" in (await ann.asks("gold?")).text
    assert "What shall I look for" in (await ann.asks("/search")).text
    assert "oil: 1 story" in (await ann.asks("oil")).text
    menu = await ann.asks("/menu")
    await ann.presses(menu, "Search")
    assert "What shall I look for" in (await ann.hears()).text
    assert "1 story" in (await ann.asks("oil")).text
    # It was asked for once.
    assert "Your channels do not say" in (await ann.asks("silver")).text


async def test_everything_from_posts_and_people_is_escaped(ann: Person, town: Town) -> None:
    hostile = "Oil <b>bold</b> <a href='https://evil.example'>click</a> & </b> <script>alert(1)</script>"
    await town.archive.post(1, hostile)
    await town.archive.run("UPDATE channels SET title = '<i>News</i> & Co' WHERE id = 100")
    found = await ann.asks("/search oil <b>&amp;")
    assert "<script>alert(1)</script>" in found.text
    assert "<i>News</i> & Co" in found.text
    assert found.links == ["https://t.me/daily_news/1"]
    assert not found.plain


async def test_a_tenant_sees_what_it_watches(ann: Person, bob: Person, town: Town) -> None:
    await town.archive.post(1, "The secret plan of B.", channel=300)
    await town.archive.post(2, "The public plan.")
    assert "secret" not in (await ann.asks("/search plan")).text
    assert "1 сюжет" in (await bob.asks("/search plan")).text
    # Whatever somebody types, the tenant is that of the linked user.
    assert "The secret" not in (await ann.asks(f"/search plan tenant:{town.other.tenant_id} channel:secret_of_b")).text


async def test_the_account_and_unlinking(ann: Person) -> None:
    shown = await ann.asks("/subscription")
    assert "(admin), system" in shown.text
    assert "Channels: 2" in shown.text
    await ann.toast(await ann.presses(shown, "Unlink"))
    assert "Unlink this Telegram from" in shown.text
    await ann.toast(await ann.presses(shown, "Yes, unlink"))
    assert "not linked any more" in shown.text
    assert "only talk to people who have an account" in (await ann.asks("hello")).text


async def test_feedback_reaches_the_admins(ann: Person, town: Town, link: Link) -> None:
    member = await link(town.member, 112)
    assert "admins" in (await member.asks("/feedback")).text
    assert "Thank you" in (await member.asks("More <b>cats</b>, please")).text
    heard = await ann.hears()
    assert "More <b>cats</b>, please" in heard.text
    rows = await town.archive.rows("SELECT details->>'text' FROM audit_log WHERE action = 'feedback'")
    assert [row[0] for row in rows] == ["More <b>cats</b>, please"]


async def test_admin_is_for_admins(ann: Person, bob: Person, town: Town, link: Link) -> None:
    member = await link(town.member, 112)
    assert "Only an admin" in (await member.asks("/admin")).text
    mine = await ann.asks("/admin")
    assert "Everything works" in mine.text
    assert "People: 2" in mine.text
    # Who runs one tenant of many learns nothing of the others.
    theirs = (await bob.asks("/admin")).text
    assert "Люди: 3" in theirs
    assert "работает" not in theirs


async def test_unknown_commands_pictures_and_old_buttons(ann: Person) -> None:
    assert "/help" in (await ann.asks("/nonsense")).text
    await ann.says("", photo=[{"file_id": "a", "file_unique_id": "b", "width": 1, "height": 1}])
    assert "I understand text" in (await ann.hears()).text
    hello = await ann.asks("/start")
    for data in ("nonsense", "c:show:x:0", "s:unknown:0", "d:show:nonsense:0", "w:999999", "x" * 60):
        assert "too old" in await ann.toast(await ann.sends_data(hello, data)), data


@pytest.mark.parametrize(
    "text", ["\x00", "\ud800 oil", "🦆" * 2_000, "a" * 4_096, "/search " + "x" * 4_000, "/ask \x00"]
)
async def test_odd_text_is_answered(ann: Person, text: str) -> None:
    assert "went wrong" not in (await ann.asks(text)).text


async def test_groups_get_no_answer(ann: Person, api: BotApi) -> None:
    group = {"id": -5, "type": "group", "title": "All of us"}
    api.chats.add(-5)
    await ann.says("/search oil", chat=group)
    await ann.says("oil?", chat=group)
    assert (await ann.asks("/menu")).text
    assert api.spoken[-5] == []
