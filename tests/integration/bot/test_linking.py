"""Strangers get one answer: how to be linked. Codes work once, for ten minutes, and not by guessing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from telegram_assistant.services.bot_link import LASTS, Codes, code_in
from telegram_assistant.services.bot_state import person_key
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.telegram_users import TelegramUsers
from tests.integration.bot.bot_api import BotApi, Person

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("bot")]

Town = Any  # of a conftest.py, which cannot be imported
ClientOf = Any
Link = Any


async def code_of(client_of: ClientOf, person: Any) -> str:
    answer = await client_of(person).post("/api/v1/bot/code")
    assert answer.status_code == 201
    assert answer.json()["link"] == f"https://t.me/of_a_test_bot?start={answer.json()['code']}"
    return str(answer.json()["code"])


async def test_a_stranger_learns_how_to_be_linked_and_nothing_else(api: BotApi, town: Town, ann: Person) -> None:
    await town.archive.post(1, "Oil became dearer.")
    eve = Person(api, 999)
    assert "only talk to people who have an account" in (await eve.asks("/start")).text
    for text in ("/search oil", "oil?"):
        assert "only talk to people" in (await eve.asks(text)).text
    # From the fourth on, silence.
    for text in ("/admin", "/my_channels", "/menu", "oil"):
        await eve.says(text)
    assert "1 story" in (await ann.asks("/search oil")).text
    assert len(api.spoken[999]) == 3


async def test_strangers_press_and_type_for_nothing(api: BotApi, town: Town, ann: Person) -> None:
    await town.archive.post(1, "Oil became dearer.")
    found = await ann.asks("/search oil")
    eve = Person(api, 999)
    assert "Link your account" in await eve.toast(await eve.presses(found, "Newest first"))
    brought = await eve.types("oil")
    assert brought["results"] == []
    assert brought["button"]["start_parameter"] == "login"
    assert "oil: 1 story" in found.text


async def test_a_code_links_and_works_once(api: BotApi, town: Town, client_of: ClientOf) -> None:
    code = await code_of(client_of, town.admin)
    eve, mallory = Person(api, 999), Person(api, 998)
    linked = await eve.asks(f"/start {code}")
    assert "you are admin-" in linked.text
    assert linked.has_button("Search")
    assert "wrong, used already" in (await mallory.asks(f"/start {code}")).text
    assert "only talk to people" in (await mallory.asks("hello")).text
    assert (await client_of(town.admin).get("/api/v1/bot")).json() == {
        "configured": True,
        "username": "of_a_test_bot",
        "linked": True,
        "blocked": False,
    }
    rows = await town.archive.rows("SELECT action FROM audit_log ORDER BY id")
    assert [row[0] for row in rows] == ["telegram_code_made", "telegram_linked"]


@pytest.mark.parametrize("how", ["/login {code}", "{code}", "/start@a_test_bot {code}", "/login {small}", "{parted}"])
async def test_codes_are_taken_as_people_type_them(api: BotApi, town: Town, client_of: ClientOf, how: str) -> None:
    code = await code_of(client_of, town.member)
    text = how.format(code=code, small=code.lower(), parted=f"{code[:4]}-{code[4:]}")
    assert "you are member-" in (await Person(api, 999).asks(text)).text


async def test_a_new_code_is_in_place_of_the_old(api: BotApi, town: Town, client_of: ClientOf) -> None:
    old, new = await code_of(client_of, town.member), await code_of(client_of, town.member)
    eve = Person(api, 999)
    assert "wrong, used already" in (await eve.asks(f"/login {old}")).text
    assert "you are" in (await eve.asks(f"/login {new}")).text


async def test_a_code_is_kept_for_ten_minutes_as_a_hash(
    services: Services, redis: Redis, town: Town, client_of: ClientOf
) -> None:
    code = await code_of(client_of, town.member)
    (kept,) = [key async for key in redis.scan_iter("bot:code:*")]
    assert code not in kept
    assert 0 < await redis.ttl(kept) <= LASTS.total_seconds() == timedelta(minutes=10).total_seconds()
    await redis.delete(kept)  # as time would
    assert await Codes(redis, services.clock).redeem(code) is None


async def test_guessing_is_stopped(api: BotApi, town: Town, client_of: ClientOf) -> None:
    code = await code_of(client_of, town.member)
    eve = Person(api, 999)
    for number in range(5):
        assert "wrong, used already" in (await eve.asks(f"/login ABCDEFG{number + 2}")).text
    assert "Too many wrong codes" in (await eve.asks(f"/login {code}")).text
    assert "you are" in (await Person(api, 998).asks(f"/login {code}")).text


async def test_linking_again_moves_the_link(
    api: BotApi, town: Town, client_of: ClientOf, services: Services, ann: Person
) -> None:
    """The tenant follows the account; the old one has no Telegram any more."""
    await town.archive.post(1, "The secret plan of B.", channel=300)
    assert "nothing found" in (await ann.asks("/search secret plan")).text
    moved = await ann.asks(f"/login {await code_of(client_of, town.other)}")
    assert "you are admin-" in moved.text
    assert "1 story" in (await ann.asks("/search secret plan")).text
    users = TelegramUsers(services.database)
    assert await users.of_user(town.admin.tenant_id, town.admin.user_id) is None
    assert await users.of_user(town.other.tenant_id, town.other.user_id) == ann.id
    # And another Telegram for the same account ends the first.
    await Person(api, 998).asks(f"/login {await code_of(client_of, town.other)}")
    assert "only talk to people" in (await ann.asks("/menu")).text


async def test_whoever_is_disabled_is_a_stranger_at_once(town: Town, ann: Person, link: Link) -> None:
    member = await link(town.member, 112)
    assert (await member.asks("/menu")).buttons
    await town.archive.run("UPDATE users SET disabled = true WHERE id = :id", id=town.member.user_id)
    assert "only talk to people" in (await member.asks("/menu")).text
    assert (await ann.asks("/menu")).buttons


async def test_a_key_with_fewer_rights_makes_no_code(api: BotApi, town: Town, client_of: ClientOf) -> None:
    """The bot has the rights of the user: a weaker key must not become an admin by way of it."""
    await town.archive.run("UPDATE api_keys SET role = 'member' WHERE user_id = :id", id=town.admin.user_id)
    answer = await client_of(town.admin).post("/api/v1/bot/code")
    assert (answer.status_code, "may do less than you" in answer.json()["detail"]) == (403, True)
    assert api.spoken == {}


async def test_unlinking_makes_a_stranger(town: Town, client_of: ClientOf, ann: Person, redis: Redis) -> None:
    assert (await ann.asks("/menu")).buttons
    assert await redis.exists(person_key(town.admin.user_id))
    assert (await client_of(town.admin).delete("/api/v1/bot/link")).status_code == 204
    assert "only talk to people" in (await ann.asks("/menu")).text
    assert not await redis.exists(person_key(town.admin.user_id))


async def test_the_page_shows_the_code_and_the_state(api: BotApi, town: Town, client_of: ClientOf) -> None:
    page = client_of(town.member, page=True)
    before = await page.get("/account/bot")
    assert before.status_code == 200
    assert "Link Telegram" in before.text
    made = await page.post("/account/bot/code", headers={"HX-Request": "true"})
    assert "<html" not in made.text
    assert made.headers["Cache-Control"] == "no-store"
    code = code_in(made.text.partition("/login ")[2][:8])
    assert code is not None
    assert f"https://t.me/of_a_test_bot?start={code}" in made.text
    await Person(api, 999).asks(code)
    assert "the bot knows you" in (await page.get("/account/bot")).text
    assert "Link Telegram" in (await page.post("/account/bot/unlink")).text
    stranger = client_of(page=True)
    assert (await stranger.get("/account/bot")).status_code == 303


async def test_forms_need_their_token(town: Town, client_of: ClientOf) -> None:
    page = client_of(town.member, page=True)
    assert (await page.post("/account/bot/code", headers={"X-CSRF-Token": "wrong"})).status_code == 403
    assert (await client_of().post("/api/v1/bot/code")).status_code == 401


def test_codes_in_texts() -> None:
    assert code_in("abcd efgh") == "ABCDEFGH"
    assert code_in("ABCDEFG0") is None  # 0 is none of the letters
    for text in ("", "login", "ABCDEFGHJ", "A" * 10_000, "ABCDEFGÄ"):
        assert code_in(text) is None
