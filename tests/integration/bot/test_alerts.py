"""Alerts to the bot: to whom they belong, once, from the moment the bot runs, and not more than a person can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis

from telegram_assistant.bot.alerts import PER_HOUR, BotAlerts, Delivery
from telegram_assistant.bot.messenger import Messenger, open_bot
from telegram_assistant.errors import Retry
from telegram_assistant.services.bot_state import Memory, alerts_key
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.saved_searches import SavedSearches, SearchAlerts
from telegram_assistant.stores.postgres.telegram_users import SETTLED, TelegramAlerts, TelegramUsers
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from tests.integration.bot.bot_api import TOKEN, BotApi, Person

pytestmark = pytest.mark.integration

Town = Any  # of a conftest.py, which cannot be imported
Link = Any


@pytest.fixture
async def alerts(services: Services, api: BotApi, redis: Redis) -> AsyncIterator[BotAlerts]:
    bot = open_bot(TOKEN, api.url)
    delivery = Delivery(Messenger(bot), Memory(redis), TelegramUsers(services.database))
    made = BotAlerts(
        TelegramAlerts(services.database, settled=timedelta(0)),
        VisiblePosts(services.database),
        delivery,
        services.access,
        redis,
        bot.id,
        asyncio.Event(),
    )
    assert await made.once() == 0  # from here on
    yield made
    await delivery.close()


async def saved(town: Town, person: Any, name: str = "Oil") -> UUID:
    store = SavedSearches(town.archive.database)
    return await store.add(person.tenant_id, person.user_id, name, "oil")


async def found(town: Town, search: UUID, *posts: UUID) -> None:
    await SearchAlerts(town.archive.database).add(search, [(post, None) for post in posts])


async def noticed(town: Town, tenant_id: UUID, user_id: UUID | None, state: str, content: str) -> UUID:
    notice = uuid4()
    await town.archive.run(
        "INSERT INTO notices (id, tenant_id, user_id, topic, key, state, content, resolved_at) VALUES (:id, :tenant,"
        " :user, 'channel', :key, CAST(:state AS text), CAST(:content AS jsonb),"
        " CASE WHEN :state = 'resolved' THEN now() END)",
        id=notice,
        tenant=tenant_id,
        user=user_id,
        key=str(notice),
        state=state,
        content=content,
    )
    return notice


async def test_what_a_search_finds_is_told_once(alerts: BotAlerts, town: Town, ann: Person, api: BotApi) -> None:
    search = await saved(town, town.admin, "Oil & <gas>")
    post = await town.archive.post(1, "Oil became dearer.")
    await found(town, search, post)
    assert await alerts.once() == 1
    assert await alerts.once() == 0
    (heard,) = api.spoken[ann.id]
    assert heard.text.startswith("🔔 Oil & <gas>\nDaily_News")


async def test_only_for_whose_search_it_is(alerts: BotAlerts, town: Town, ann: Person, bob: Person, link: Link) -> None:
    member = await link(town.member, 112)
    post = await town.archive.post(1, "Oil became dearer.")
    await found(town, await saved(town, town.member), post)
    assert await alerts.once() == 1
    assert "🔔" in (await member.hears()).text
    assert ann.api.spoken[ann.id] == bob.api.spoken[bob.id] == []


async def test_not_what_was_there_before_nor_what_is_muted_or_gone(
    services: Services, town: Town, ann: Person, redis: Redis, alerts: BotAlerts
) -> None:
    search, muted = await saved(town, town.admin), await saved(town, town.admin, "Muted")
    posts = [await town.archive.post(number, f"Oil of {number}.") for number in (1, 2, 3)]
    await found(town, search, posts[0])
    await redis.delete(alerts_key(alerts.bot_id))  # a bot that runs for the first time
    assert await alerts.once() == 0
    store = SavedSearches(services.database)
    kept = await store.get(town.admin.tenant_id, town.admin.user_id, muted)
    assert kept is not None
    await store.change(kept, muted=True)
    await found(town, muted, posts[1])
    await found(town, search, posts[2])
    await town.archive.run("UPDATE posts SET deleted_at = now() WHERE id = :id", id=posts[2])
    assert await alerts.once() == 0
    assert ann.api.spoken[ann.id] == []


async def test_old_news_is_none(alerts: BotAlerts, town: Town, ann: Person, redis: Redis) -> None:
    """The bot was down for days."""
    search = await saved(town, town.admin)
    post = await town.archive.post(1, "Oil became dearer.")
    position = str(await redis.get(alerts_key(alerts.bot_id)))
    await redis.set(alerts_key(alerts.bot_id), position.replace("202", "200"))
    await found(town, search, post)
    await town.archive.run("UPDATE search_alerts SET found_at = now() - interval '25 hours'")
    assert await alerts.once() == 0
    assert ann.api.spoken[ann.id] == []


async def test_where_telegram_makes_us_wait_it_goes_on_later(
    alerts: BotAlerts, town: Town, ann: Person, api: BotApi
) -> None:
    search = await saved(town, town.admin)
    posts = [await town.archive.post(number, f"Oil of the harbour {number}.") for number in (1, 2, 3)]
    await found(town, search, *posts)
    api.fail("sendMessage", 429, "Too Many Requests: retry after 300", retry_after=300)
    with pytest.raises(Retry):
        await alerts.once()
    assert await alerts.once() == 3
    told = [one.links[0] for one in api.spoken[ann.id]]
    assert sorted(told) == [f"https://t.me/daily_news/{number}" for number in (1, 2, 3)]


async def test_what_telegram_never_takes_does_not_stand_before_the_others(
    alerts: BotAlerts, town: Town, ann: Person, api: BotApi, link: Link
) -> None:
    member = await link(town.member, 112)
    await found(town, await saved(town, town.admin), await town.archive.post(1, "Oil became dearer."))
    await found(town, await saved(town, town.member), await town.archive.post(2, "Oil of the harbour burns."))
    api.fail("sendMessage", 400, "Bad Request: BUTTON_URL_INVALID")
    assert await alerts.once() == 1
    assert "burns" in (await member.hears()).text
    assert api.spoken[ann.id] == []


async def test_attempts_that_telegram_puts_off_do_not_use_up_the_limit_of_a_person(
    alerts: BotAlerts, town: Town, ann: Person, api: BotApi
) -> None:
    """It was away for an hour: what waited is told afterwards."""
    await found(town, await saved(town, town.admin), await town.archive.post(1, "Oil became dearer."))
    for _ in range(PER_HOUR + 5):
        api.fail("sendMessage", 429, "Too Many Requests: retry after 300", retry_after=300)
        with pytest.raises(Retry):
            await alerts.once()
    assert await alerts.once() == 1
    assert "dearer" in (await ann.hears()).text


async def test_who_was_told_is_not_told_again_because_of_another(
    alerts: BotAlerts, town: Town, ann: Person, api: BotApi, link: Link
) -> None:
    member = await link(town.member, 112)
    await town.archive.run("UPDATE users SET role = 'admin' WHERE id = :id", id=town.member.user_id)
    people = {town.admin.user_id: ann, town.member.user_id: member}
    first, second = (people[user_id] for user_id in sorted(people))
    await noticed(town, town.admin.tenant_id, None, "open", '{"code": "gone", "title": "Sport"}')
    api.flooded = {second.id}
    with pytest.raises(Retry):
        await alerts.once()
    api.flooded = set()
    assert await alerts.once() == 1
    assert [len(api.spoken[one.id]) for one in (first, second)] == [1, 1]


async def test_a_flood_ends_with_a_word_about_the_rest(alerts: BotAlerts, town: Town, ann: Person, api: BotApi) -> None:
    search = await saved(town, town.admin)
    posts = [await town.archive.post(number, f"Oil of the harbour {number}.") for number in range(1, PER_HOUR + 6)]
    await found(town, search, *posts)
    assert await alerts.once() == PER_HOUR
    told = api.spoken[ann.id]
    assert len(told) == PER_HOUR + 1
    assert "на странице" in told[-1].text


async def test_notices_reach_whom_they_are_for(
    alerts: BotAlerts, town: Town, ann: Person, bob: Person, link: Link
) -> None:
    member = await link(town.member, 112)
    tenant = town.admin.tenant_id
    url = '"url": "https://t.me/daily_news/7"'
    await noticed(town, tenant, town.member.user_id, "told", f'{{"code": "edited", "title": "<News>", {url}}}')
    assert await alerts.once() == 1
    heard = await member.hears()
    assert heard.text == "✏️ <News>: отслеживаемый пост изменён"
    assert heard.links == ["https://t.me/daily_news/7"]
    failing = '{"code": "failing", "title": "Sport", "username": "sport", "error": "Flood <wait>"}'
    await noticed(town, tenant, None, "open", failing)
    await noticed(town, tenant, None, "waiting", failing)
    assert await alerts.once() == 1, "the admin of that tenant alone"
    assert (await ann.hears()).text == "⚠️ Sport сейчас не читается\nFlood <wait>"
    await noticed(town, tenant, None, "resolved", failing)
    await noticed(town, tenant, None, "open", '{"code": "full", "megabytes": 500, "percent": 100}')
    await noticed(town, tenant, None, "open", '{"code": "of a later version"}')
    assert await alerts.once() == 3
    assert {(await ann.hears()).text.split()[0] for _ in range(3)} == {"✅", "⛔", "⚠️"}
    assert bob.api.spoken[bob.id] == []


async def test_rows_are_given_out_when_no_older_one_can_come(
    services: Services, town: Town, ann: Person, alerts: BotAlerts
) -> None:
    careful = replace(alerts, alerts=TelegramAlerts(services.database))
    search = await saved(town, town.admin)
    await found(town, search, await town.archive.post(1, "Oil became dearer."))
    assert await careful.once() == 0
    await town.archive.run("UPDATE search_alerts SET found_at = found_at - CAST(:by AS interval)", by=2 * SETTLED)
    assert await careful.once() == 0, "before the place where it stands"
    await found(town, search, await town.archive.post(2, "Oil of the harbour became cheaper."))
    assert await alerts.once() == 1
    assert "cheaper" in (await ann.hears()).text
