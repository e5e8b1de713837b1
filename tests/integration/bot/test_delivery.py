"""Alerts and digests that nobody asked for this moment, and everything that Telegram may say instead of taking them."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from telegram_assistant.bot.alerts import Delivery, Outcome
from telegram_assistant.bot.messenger import Messenger, open_bot
from telegram_assistant.domain.proxies import parse_proxy
from telegram_assistant.domain.results import Shown
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.services.bot_state import Memory
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.saved_searches import SavedSearches
from telegram_assistant.stores.postgres.telegram_users import FoundPost, TelegramUsers
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.wiring.bot import open_delivery
from tests.integration.bot.bot_api import LONGEST, TOKEN, BotApi, Person
from tests.integration.bot.markup import units
from tests.proxies import Socks5Proxy

pytestmark = pytest.mark.integration

Town = Any  # of a conftest.py, which cannot be imported


class Clock:
    """Sleeps without sleeping, and knows how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def delivery(services: Services, api: BotApi, clock: Clock) -> AsyncIterator[Delivery]:
    bot = open_bot(TOKEN, api.url)
    users = TelegramUsers(services.database)
    made = Delivery(Messenger(bot, sleep=clock.sleep), Memory(services.redis), users)
    yield made
    await made.close()


@pytest.fixture
async def send(delivery: Delivery, town: Town) -> Any:
    async def to_admin(html: str) -> Outcome:
        return await delivery.send(town.admin.tenant_id, town.admin.user_id, html)

    return to_admin


async def shown_post(town: Town, text: str) -> Shown:
    post = await town.archive.post(1, text)
    posts = await VisiblePosts(town.archive.database).posts(town.admin.tenant_id, [post])
    found: Shown = posts[post]
    return found


@pytest.mark.usefixtures("bot")
async def test_an_alert_links_its_post_and_can_be_muted(
    delivery: Delivery, town: Town, ann: Person, services: Services
) -> None:
    saved = SavedSearches(services.database)
    search = await saved.add(town.admin.tenant_id, town.admin.user_id, "<Oil>", "oil")
    post = await shown_post(town, "Oil <script> & so on.")
    admin = town.admin
    found = FoundPost(post.posted_at, post.post_id, search, admin.tenant_id, admin.user_id, "<Oil>", also=2)
    assert await delivery.send_alert(found, post) is Outcome.SENT
    heard = await ann.hears()
    assert heard.text.startswith("🔔 <Oil>\nDaily_News · ")
    assert "Oil <script> & so on." in heard.text
    assert "ещё 2 поста" in heard.text  # nobody has heard her speak yet: Russian first
    assert heard.button("Открыть")["url"] == "https://t.me/daily_news/1"
    await ann.toast(await ann.presses(heard, "🔕"))
    kept = await saved.get(town.admin.tenant_id, town.admin.user_id, search)
    assert kept is not None
    assert kept.muted


@pytest.mark.usefixtures("bot")
async def test_another_persons_search_cannot_be_muted(ann: Person, town: Town, services: Services) -> None:
    saved = SavedSearches(services.database)
    search = await saved.add(town.member.tenant_id, town.member.user_id, "Oil", "oil")
    menu = await ann.asks("/menu")
    assert "too old" in await ann.toast(await ann.sends_data(menu, f"m:{search.hex}:1"))
    kept = await saved.get(town.member.tenant_id, town.member.user_id, search)
    assert kept is not None
    assert not kept.muted


async def test_who_is_not_linked_gets_nothing(delivery: Delivery, town: Town, api: BotApi) -> None:
    assert await delivery.send(town.admin.tenant_id, town.admin.user_id, "Hello") is Outcome.NOT_LINKED
    assert await delivery.send(town.admin.tenant_id, uuid4(), "Hello") is Outcome.NOT_LINKED
    assert api.calls.of["sendMessage"] == []


async def test_another_tenant_reaches_nobody(delivery: Delivery, town: Town, ann: Person, api: BotApi) -> None:
    """A user is looked up within the tenant that sends."""
    assert await delivery.send(town.other.tenant_id, town.admin.user_id, "Hello") is Outcome.NOT_LINKED
    assert api.spoken[ann.id] == []


async def test_too_fast_waits_as_long_as_telegram_says(send: Any, api: BotApi, ann: Person, clock: Clock) -> None:
    api.fail("sendMessage", 429, "Too Many Requests: retry after 3", times=2, retry_after=3)
    assert await send("Hello") is Outcome.SENT
    assert clock.slept == [3, 3]
    assert (await ann.hears()).text == "Hello"


async def test_a_long_wait_is_left_to_the_caller(send: Any, api: BotApi, ann: Person, clock: Clock) -> None:
    api.fail("sendMessage", 429, "Too Many Requests: retry after 600", retry_after=600)
    with pytest.raises(Retry) as caught:
        await send("Hello")
    assert (caught.value.after, clock.slept, api.spoken[ann.id]) == (600, [], [])


async def test_who_blocked_the_bot_is_marked_and_left_alone(
    send: Any, api: BotApi, ann: Person, town: Town, services: Services
) -> None:
    api.blocked.add(ann.id)
    assert await send("Hello") is Outcome.BLOCKED
    assert await send("Hello") is Outcome.BLOCKED
    assert len(api.calls.of["sendMessage:refused"]) == 1, "asked once, then not again"
    assert await Memory(services.redis).has_blocked(town.admin.user_id)


@pytest.mark.usefixtures("bot")
async def test_whoever_comes_back_is_written_to_again(
    send: Any, api: BotApi, ann: Person, client_of: Any, town: Town
) -> None:
    await ann.blocks()
    await ann.types("x")  # answered after it: so the first is known
    assert await send("Hello") is Outcome.BLOCKED
    assert (await client_of(town.admin).get("/api/v1/bot")).json()["blocked"]
    assert "You have blocked the bot" in (await client_of(town.admin, page=True).get("/account/bot")).text
    api.blocked.discard(ann.id)
    assert "Hello" in (await ann.asks("/start")).text
    assert await send("News") is Outcome.SENT
    assert (await ann.hears()).text == "News"


async def test_a_chat_that_never_began_is_like_a_blocked_one(send: Any, api: BotApi, ann: Person) -> None:
    api.chats.discard(ann.id)
    assert await send("Hello") is Outcome.BLOCKED


async def test_long_messages_are_cut_at_the_ends_of_sentences(send: Any, api: BotApi, ann: Person) -> None:
    sentence = 'This is a <b>sentence</b> with a <a href="https://t.me/daily_news/1">link</a> &amp; number {}.'
    html = " ".join(sentence.format(number) for number in range(400))
    assert await send(html) is Outcome.SENT
    pieces = api.spoken[ann.id]
    assert len(pieces) > 1
    assert all(units(one.text) <= LONGEST and one.text.endswith(".") for one in pieces)
    assert all(len(one.links) <= 100 for one in pieces), "Telegram drops what is beyond"
    together = " ".join(one.text for one in pieces)
    assert together == " ".join(f"This is a sentence with a link & number {number}." for number in range(400))


async def test_what_telegram_finds_too_long_is_cut_once_more(send: Any, api: BotApi, ann: Person) -> None:
    api.fail("sendMessage", 400, "Bad Request: message is too long")
    assert await send("One sentence. " * 200) is Outcome.SENT
    assert "".join(one.text for one in api.spoken[ann.id]).count("One sentence.") == 200
    assert len(api.spoken[ann.id]) == 2


async def test_markup_that_telegram_refuses_goes_as_plain_text(send: Any, ann: Person) -> None:
    assert await send("<blink>Hello</blink> &amp; <b>more") is Outcome.SENT
    heard = await ann.hears()
    assert (heard.text, heard.plain) == ("Hello & more", True)


async def test_an_outage_is_tried_again_and_then_told(send: Any, api: BotApi, ann: Person, clock: Clock) -> None:
    api.fail("sendMessage", 502, "Bad Gateway", times=2)
    assert await send("Hello") is Outcome.SENT
    assert clock.slept == [0.5, 1.0]
    api.reachable = False
    with pytest.raises(Retry, match="does not answer"):
        await send("Hello")
    assert len(api.spoken[ann.id]) == 1


async def test_a_token_that_is_none() -> None:
    with pytest.raises(Fatal, match="TELEGRAM_BOT_TOKEN") as caught:
        open_bot("s3cret-nonsense", None)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://", "http://127.0.0.1:1", "nonsense"])
async def test_no_error_quotes_the_token(address: str, clock: Clock) -> None:
    """LESSONS 24: it is part of every address that is asked."""
    bot = open_bot(TOKEN, address)
    with pytest.raises(Retry) as caught:
        await Messenger(bot, sleep=clock.sleep).send(1, "Hello")
    await bot.session.close()
    said = "".join(traceback.format_exception(caught.value))
    assert "does not answer" in said
    assert TOKEN not in said
    assert TOKEN.partition(":")[2] not in said


async def test_any_role_can_send(services: Services, town: Town, ann: Person) -> None:
    opened = open_delivery(services)
    assert opened is not None
    assert await opened.send(town.admin.tenant_id, town.admin.user_id, "Hello") is Outcome.SENT
    assert (await ann.hears()).text == "Hello"
    await opened.close()
    without = services.settings.model_copy(update={"telegram_bot_token": None})
    assert open_delivery(Services(**{**vars(services), "settings": without})) is None


async def test_telegram_is_asked_through_the_proxy_and_a_server_of_ours_is_not(api: BotApi, clock: Clock) -> None:
    async with Socks5Proxy(login=("ann", "s3cret"), leads={("api.telegram.org", 443): ("127.0.0.1", 1)}) as proxy:
        through = parse_proxy(proxy.url)
        telegrams, ours = open_bot(TOKEN, None, proxy=through), open_bot(TOKEN, api.url, proxy=through)
        try:
            with pytest.raises(Retry) as caught:
                await Messenger(telegrams, sleep=clock.sleep).send(1, "hello")
            assert set(proxy.asked) == {("api.telegram.org", 443)}
            assert "s3cret" not in "".join(traceback.format_exception(caught.value))
            asked = len(proxy.asked)
            await ours.get_me()
            assert len(proxy.asked) == asked
        finally:
            await telegrams.session.close()
            await ours.session.close()
