"""Channels in the bot: adding by name and by forwarding, the list, a channel's own buttons."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.stores.postgres.watched_channels import Requests
from tests.integration.bot.bot_api import BotApi, Person
from tests.integration.search.archive import NEWS, SYSTEM

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("bot")]

Town = Any  # of a conftest.py, which cannot be imported


def channel(number: int, title: str, username: str | None = None) -> dict[str, Any]:
    chat = {"id": -(10**12) - number, "type": "channel", "title": title}
    return {"type": "channel", "message_id": 7, "chat": {**chat, **({"username": username} if username else {})}}


async def test_a_forwarded_post_adds_its_channel(ann: Person, town: Town) -> None:
    await ann.forwards(channel(777, "Durov's", "Durov"))
    added = await ann.hears()
    assert "@durov will be watched" in added.text
    request = await Requests(town.archive.database).get(SYSTEM, "@durov")
    assert request is not None
    assert request.user_id == town.admin.user_id
    assert "Taken back" in await ann.toast(await ann.presses(added, "Undo"))
    assert await Requests(town.archive.database).get(SYSTEM, "@durov") is None
    assert "too old" in await ann.toast(await ann.sends_data(added, f"w:{request.id}"))


async def test_a_known_channel_is_known(ann: Person) -> None:
    await ann.forwards(channel(NEWS, "Daily_News", "daily_news"))
    known = await ann.hears()
    assert "You watch Daily_News already" in known.text
    await ann.toast(await ann.presses(known, "Daily_News"))
    assert "0 posts" in known.text


async def test_a_private_channel_needs_an_invitation(ann: Person, bob: Person, town: Town) -> None:
    await ann.forwards(channel(300, "Secret <b>of B"))
    told = await ann.hears()
    assert "Secret <b>of B is a private channel" in told.text
    assert "https://t.me/+" in told.text
    assert await Requests(town.archive.database).open() == []
    # Whose tenant watches it already is told so.
    await bob.forwards(channel(300, "Secret of B"))
    assert "уже следите" in (await bob.hears()).text


@pytest.mark.parametrize(
    "origin",
    [
        {"type": "user", "sender_user": {"id": 5, "is_bot": False, "first_name": "Bob"}},
        {"type": "hidden_user", "sender_user_name": "Bob"},
        {"type": "chat", "sender_chat": {"id": -5, "type": "group", "title": "All"}},
    ],
)
async def test_what_is_from_no_channel_adds_nothing(ann: Person, town: Town, origin: dict[str, Any]) -> None:
    await ann.forwards(origin)
    assert "not forwarded from a channel" in (await ann.hears()).text
    assert await Requests(town.archive.database).open() == []


async def test_an_album_is_answered_once(ann: Person, api: BotApi) -> None:
    photo = [{"file_id": "a", "file_unique_id": "b", "width": 1, "height": 1}]
    for _ in range(4):
        await ann.forwards(channel(777, "Durov's", "durov"), "", media_group_id="77", photo=photo)
    assert (await ann.asks("/menu")).text
    assert [("@durov" in one.text) for one in api.spoken[ann.id]] in ([True, False], [True])
    assert sum("@durov" in one.text for one in api.spoken[ann.id]) == 1


@pytest.mark.parametrize(
    "given,written",
    [("@Durov", "@durov"), ("https://t.me/durov/12", "@durov"), ("t.me/+AAAAAEX0zx2", "+AAAAAEX0zx2")],
)
async def test_adding_by_name(ann: Person, town: Town, given: str, written: str) -> None:
    assert "will be watched" in (await ann.asks(f"/add_channel {given}")).text
    (request,) = await Requests(town.archive.database).open()
    assert written in request.reference


@pytest.mark.parametrize(
    "given", ["two words", "x", "https://example.org/durov", "<b>", "@" * 3_000, "-9999999999999999"]
)
async def test_what_is_no_channel(ann: Person, town: Town, given: str) -> None:
    assert "do not understand this as a channel" in (await ann.asks(f"/add_channel {given}")).text
    assert await Requests(town.archive.database).open() == []


async def test_asked_for_first_then_given(ann: Person, town: Town) -> None:
    assert "Which channel" in (await ann.asks("/add_channel")).text
    assert "@durov will be watched" in (await ann.asks("durov")).text
    assert len(await Requests(town.archive.database).open()) == 1


async def test_the_list_has_pages_and_cards(ann: Person, town: Town) -> None:
    for number in range(1000, 1010):
        await town.archive.channel(number, f"channel_{number}", SYSTEM)
    await town.archive.run("UPDATE channels SET failures = 3, last_error = 'It <is> gone' WHERE id = 1000")
    await Requests(town.archive.database).add(SYSTEM, town.admin.user_id, "@wished_for")
    listed = await ann.asks("/my_channels")
    assert "You watch 12 channels" in listed.text
    assert "@wished_for" in listed.text
    assert listed.has_button("⚠️ Channel_1000")
    first = [one["text"] for one in listed.buttons]
    await ann.toast(await ann.presses(listed, "Next"))
    assert not {one["text"] for one in listed.buttons if "Channel" in one["text"]} & set(first)
    await ann.toast(await ann.presses(listed, "Back"))
    await ann.toast(await ann.presses(listed, "Channel_1000"))
    assert "Last visit failed: It <is> gone" in listed.text
    assert "being visited" in await ann.toast(await ann.presses(listed, "Visit now"))
    rows = await town.archive.rows("SELECT next_visit_at IS NOT NULL FROM channels WHERE id = 1000")
    assert rows[0][0]
    await ann.toast(await ann.presses(listed, "Stop watching"))
    assert "Stop watching Channel_1000?" in listed.text
    assert "Not watched any more" in await ann.toast(await ann.presses(listed, "Yes, stop"))
    assert "You watch 11 channels" in listed.text


async def test_newest_posts_of_a_channel(ann: Person, town: Town) -> None:
    await town.archive.post(1, "Old news.")
    await town.archive.post(2, "New news.")
    listed = await ann.asks("/my_channels")
    await ann.toast(await ann.presses(listed, "Daily_News"))
    await ann.presses(listed, "Newest posts")
    found = await ann.hears()
    assert found.text.index("New news") < found.text.index("Old news")


@pytest.mark.parametrize("do", ["show", "visit", "posts", "sure", "remove"])
async def test_another_tenants_channel_is_not_there(ann: Person, town: Town, do: str) -> None:
    menu = await ann.asks("/menu")
    await ann.sends_data(menu, f"c:{do}:300:0")
    assert "There is no such channel" in (await ann.hears()).text
    rows = await town.archive.rows("SELECT status, next_visit_at FROM channels WHERE id = 300")
    assert tuple(rows[0]) == ("active", None)
