"""Saved searches: a new post that fits is told of once, to the page and to a webhook that can be trusted."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import pytest
import uvicorn
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.crawl.network import Poster
from telegram_assistant.domain.saved_search import Alert, DeliveryState, SavedSearch
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.names import ALERTS_LOCK, alerts_told
from telegram_assistant.search.alerts import ATTEMPTS, Alerts, Webhooks, secret_owner
from telegram_assistant.stores.postgres.saved_searches import SavedSearches, SearchAlerts
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import open_alerts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import POSTED, SPORT, SYSTEM, Archive

pytestmark = pytest.mark.integration

SECRET = "whsec_test"
STORY = (
    "Международный уголовный суд выдал ордер на арест премьера и бывшего министра обороны за предполагаемые военные"
    " преступления, сообщили в суде. Решение приняли трое судей единогласно."
)


@dataclass
class Receiver:
    """A webhook on loopback: what it got, and what it answers."""

    got: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def take(self, request: Request) -> Response:
        body = await request.body()
        signed = dict(part.split("=", 1) for part in request.headers["x-tga-signature"].split(","))
        wanted = hmac.new(SECRET.encode(), f"{signed['t']}.".encode() + body, sha256).hexdigest()
        self.got.append((json.loads(body), "signed" if hmac.compare_digest(signed["v1"], wanted) else "forged"))
        return Response(status_code=self.status, headers=self.headers)


@asynccontextmanager
async def listening(receiver: Receiver) -> AsyncIterator[None]:
    app = Starlette(routes=[Route("/hook", receiver.take, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        receiver.port = listener.getsockname()[1]
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
            await serving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    async with listening(made):
        yield made


@dataclass
class Desk:
    """Somebody with saved searches, and what looks at them."""

    archive: Archive
    alerts: Alerts
    user: UUID

    @property
    def saved(self) -> SavedSearches:
        return self.alerts.saved

    @property
    def found(self) -> SearchAlerts:
        return self.alerts.found

    async def save(self, query: str, *, tenant: UUID = SYSTEM, web: bool = True) -> SavedSearch:
        user = self.archive.users[tenant]
        made = await self.saved.get(tenant, user, await self.saved.add(tenant, user, query, query, web=web))
        assert made is not None
        # Posts of this archive are of a certain day, and the search was saved on it.
        await self.archive.run(
            "UPDATE saved_searches SET created_at = :at WHERE id = :id", at=POSTED - timedelta(hours=1), id=made.id
        )
        return made

    async def listed(self, saved: SavedSearch | None = None) -> list[Alert]:
        tenant = saved.tenant_id if saved else SYSTEM
        user = self.archive.users[tenant]
        return await self.found.of_user(tenant, user, limit=50, search_id=saved.id if saved else None)

    async def numbers(self, saved: SavedSearch) -> list[int]:
        """Messages that it told of."""
        ids = [alert.post_id for alert in await self.listed(saved)]
        rows = await self.archive.rows("SELECT id, message_id FROM posts WHERE id = ANY(:ids)", ids=ids)
        return sorted(row.message_id for row in rows)

    async def hook(self, saved: SavedSearch, url: str) -> None:
        sealed = self.alerts.sealer.seal(SECRET, owner=secret_owner(saved.id))
        await self.saved.set_webhook(saved, url, sealed)

    async def due_now(self) -> None:
        await self.archive.run("UPDATE search_alerts SET due_at = now()")


def make_alerts(database: AsyncEngine, redis: Redis, lexicon: Lexicon, receiver: Receiver) -> Alerts:
    webhooks = Webhooks(Poster(agent="test", allow=frozenset({("127.0.0.1", receiver.port)})), utc_now)
    return open_alerts(database, redis, Sealer("key"), webhooks, owner=uuid4().hex, lexicon=lexicon)


@pytest.fixture
async def desk(
    archive: Archive, redis: Redis, lexicon: Lexicon, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    # The archive's posts are of a fixed day, which is always news here.
    monkeypatch.setattr("telegram_assistant.search.alerts.FRESH", timedelta(days=36_500))
    alerts = make_alerts(archive.database, redis, lexicon, receiver)
    return Desk(archive, alerts, archive.users[SYSTEM])


async def test_what_fits_is_told_once(desk: Desk) -> None:
    await desk.archive.post(1, "нефть подорожала")
    oil = await desk.save("нефть -газ")
    await desk.archive.run("UPDATE search_documents SET indexed_at = :at", at=POSTED - timedelta(days=2))
    both = await desk.save("цена нефти channel:@sport")
    await desk.archive.post(2, "Цены на нефть выросли")
    await desk.archive.post(3, "нефть и газ")
    await desk.archive.post(4, "Цена нефти: что думает спорт", channel=SPORT)
    await desk.archive.post(5, "Футбол")
    assert await desk.alerts.once() == 3
    assert await desk.numbers(oil) == [2, 4], "1 was there before it was saved"
    assert await desk.numbers(both) == [4]
    assert await desk.alerts.once() == 0
    assert await desk.found.unread(SYSTEM, desk.user) == 3
    [first] = [one for one in await desk.saved.of_user(SYSTEM, desk.user) if one.id == oil.id]
    assert first.unread == 2


async def test_another_process_goes_on_where_this_one_stopped(
    desk: Desk, redis: Redis, lexicon: Lexicon, receiver: Receiver
) -> None:
    oil = await desk.save("нефть")
    await desk.archive.post(1, "нефть")
    assert await desk.alerts.once() == 1
    await desk.archive.post(2, "нефть снова")
    other = make_alerts(desk.archive.database, redis, lexicon, receiver)
    assert await other.once() == 1, "it reads again what lies before, and tells nobody twice"
    assert await desk.alerts.once() == 0
    assert await desk.numbers(oil) == [1, 2]


async def test_a_post_whose_picture_is_read_later_is_found_then(desk: Desk) -> None:
    gas = await desk.save("квитанция")
    await desk.archive.post(1, "Смотрите сами")
    assert await desk.alerts.once() == 0
    await desk.archive.index(desk.archive.source(1, "Смотрите сами", sections=[("C", "квитанция за газ")]))
    assert await desk.alerts.once() == 1
    await desk.archive.index(desk.archive.source(1, "Смотрите сами!", sections=[("C", "квитанция за газ")]))
    assert await desk.alerts.once() == 0
    assert await desk.numbers(gas) == [1]


async def test_what_excludes_something_waits_for_what_models_say(desk: Desk) -> None:
    oil, clean = await desk.save("нефть"), await desk.save("нефть -tag:реклама")
    posts = [await desk.archive.post(number, "погода") for number in (1, 2)]
    early = [desk.archive.source(number, f"нефть и {word}") for number, word in ((1, "скидки"), (2, "газ"))]
    await desk.archive.index(*early, whole=False)
    assert await desk.alerts.once() == 2
    assert (await desk.numbers(oil), await desk.numbers(clean)) == ([1, 2], [])
    await desk.archive.index(desk.archive.source(1, "нефть и скидки", tags=("реклама",)))
    await desk.archive.documents.complete({posts[1]: early[1].digest})
    assert await desk.alerts.once() == 1
    assert (await desk.numbers(oil), await desk.numbers(clean)) == ([1, 2], [2])


async def test_a_story_is_told_once_a_day(desk: Desk) -> None:
    court = await desk.save("ордер суд")
    await desk.archive.post(1, STORY)
    await desk.archive.post(2, f"Срочно. {STORY}", channel=SPORT)
    await desk.alerts.once()
    await desk.archive.post(3, f"Ещё раз. {STORY}", channel=SPORT)
    await desk.alerts.once()
    [alert] = await desk.listed(court)
    assert alert.also == 2
    await desk.archive.post(4, f"И снова. {STORY}", channel=SPORT, when=2)
    assert await desk.alerts.once() == 1, "two days later it is news again"


async def test_an_album_is_told_once(desk: Desk) -> None:
    parade = await desk.save("парад")
    album = uuid4()
    for number in (1, 2, 3):
        await desk.archive.post(number, "Парад", album_id=album)
    assert await desk.alerts.once() == 1
    assert len(await desk.listed(parade)) == 1


async def test_nobody_is_told_of_what_is_not_theirs(desk: Desk) -> None:
    ann, bob = await desk.archive.tenant("ann"), await desk.archive.tenant("bob")
    await desk.archive.channel(7, "of_ann", ann, owner=ann)
    hers, his = await desk.save("секрет", tenant=ann), await desk.save("секрет", tenant=bob)
    system = await desk.save("секрет")
    await desk.archive.post(1, "секрет", channel=7)
    assert await desk.alerts.once() == 1
    assert await desk.numbers(hers) == [1]
    assert await desk.listed(his) == await desk.listed(system) == []
    assert await desk.saved.get(bob, desk.archive.users[bob], hers.id) is None
    assert await desk.found.read(bob, desk.archive.users[bob], search_id=hers.id) == 0
    await desk.archive.run("DELETE FROM subscriptions WHERE channel_id = 7")
    assert await desk.listed(hers) == [], "what is seen no more is shown no more"
    assert await desk.found.unread(ann, desk.archive.users[ann]) == 0


async def test_muted_ones_are_quiet_and_do_not_catch_up(desk: Desk) -> None:
    oil = await desk.save("нефть")
    await desk.saved.change(oil, muted=True)
    await desk.archive.post(1, "нефть")
    assert await desk.alerts.once() == 0
    await desk.saved.change(oil, muted=False, name="Oil")
    assert await desk.alerts.once() == 0
    await desk.archive.post(2, "нефть")
    assert await desk.alerts.once() == 1
    changed = await desk.saved.get(SYSTEM, desk.user, oil.id)
    assert changed is not None
    assert (changed.name, changed.muted, changed.unread) == ("Oil", False, 1)


async def test_reading_and_removing(desk: Desk) -> None:
    oil, quiet = await desk.save("нефть"), await desk.save("нефть", web=False)
    await desk.archive.post(1, "нефть")
    await desk.alerts.once()
    assert await desk.found.unread(SYSTEM, desk.user) == 1, "the other does not want to be counted"
    assert len(await desk.listed(quiet)) == 1
    assert await desk.found.read(SYSTEM, desk.user) == 1
    assert await desk.found.unread(SYSTEM, desk.user) == 0
    await desk.saved.remove(oil)
    assert await desk.listed(oil) == []
    assert await desk.archive.rows("SELECT 1 FROM search_alerts WHERE search_id = :id", id=oil.id) == []


async def test_the_page_hears_of_it(desk: Desk, redis: Redis) -> None:
    oil = await desk.save("нефть")
    async with redis.pubsub() as channel:
        await channel.subscribe(alerts_told(SYSTEM))
        await desk.archive.post(1, "нефть")
        await desk.alerts.once()
        message = None
        while message is None or message["type"] != "message":
            message = await channel.get_message(timeout=300)
    assert json.loads(message["data"]) == {"search_id": str(oil.id), "user_id": str(desk.user), "posts": 1}


async def test_a_webhook_gets_a_signed_post(desk: Desk, receiver: Receiver) -> None:
    oil = await desk.save("нефть")
    await desk.hook(oil, receiver.url)
    post = await desk.archive.post(1, "нефть")
    await desk.alerts.once()
    [(body, sign)] = receiver.got
    assert sign == "signed"
    assert body["type"] == "alert"
    assert body["saved_search"] == {"id": str(oil.id), "name": "нефть", "query": "нефть"}
    assert body["post"]["id"] == str(post)
    assert body["post"]["url"] == "https://t.me/daily_news/1"
    [alert] = await desk.listed(oil)
    assert (alert.state, alert.attempts) == (DeliveryState.DELIVERED, 1)
    await desk.due_now()
    await desk.alerts.once()
    assert len(receiver.got) == 1


@pytest.mark.parametrize("status", [302, 400, 500])
async def test_a_webhook_that_fails_is_tried_again_and_given_up(desk: Desk, receiver: Receiver, status: int) -> None:
    receiver.status = status
    receiver.headers = {"location": f"{receiver.url}?again"} if status == 302 else {}
    oil = await desk.save("нефть")
    await desk.hook(oil, receiver.url)
    await desk.archive.post(1, "нефть")
    for attempt in range(1, ATTEMPTS + 1):
        await desk.alerts.once()
        [alert] = await desk.listed(oil)
        assert alert.attempts == attempt
        assert str(status) in alert.error
        assert await desk.alerts.deliver() == 0, "not before it is due"
        await desk.due_now()
    assert alert.state is DeliveryState.DEAD
    await desk.alerts.once()
    assert len(receiver.got) == ATTEMPTS, "redirects are not followed, and the dead are left alone"
    saved = await desk.saved.get(SYSTEM, desk.user, oil.id)
    assert saved is not None
    assert saved.dead == 1
    receiver.status = 200
    assert await desk.found.again(oil) == 1
    await desk.alerts.once()
    assert (await desk.listed(oil))[0].state is DeliveryState.DELIVERED


async def test_a_secret_of_another_installation_is_told(desk: Desk, receiver: Receiver) -> None:
    oil = await desk.save("нефть")
    await desk.saved.set_webhook(oil, receiver.url, Sealer("another").seal(SECRET, owner=secret_owner(oil.id)))
    await desk.archive.post(1, "нефть")
    await desk.alerts.once()
    [alert] = await desk.listed(oil)
    assert alert.state is DeliveryState.DEAD
    assert "set the webhook anew" in alert.error


async def test_whoever_is_kept_out_gets_nothing_by_webhook(desk: Desk, receiver: Receiver) -> None:
    oil = await desk.save("нефть")
    await desk.hook(oil, receiver.url)
    await desk.archive.post(1, "нефть дорожает")
    assert await desk.alerts.look() == 1
    await desk.archive.run("UPDATE users SET disabled = true WHERE id = :id", id=desk.user)
    await desk.archive.post(2, "нефть дешевеет")
    await desk.alerts.once()
    assert receiver.got == []
    await desk.archive.run("UPDATE users SET disabled = false WHERE id = :id", id=desk.user)
    await desk.alerts.once()
    [(body, _)] = receiver.got
    assert body["post"]["url"] == "https://t.me/daily_news/1", "what waited before; what came meanwhile is shown only"
    assert await desk.numbers(oil) == [1, 2]


async def test_a_post_that_is_gone_is_not_sent(desk: Desk, receiver: Receiver) -> None:
    oil = await desk.save("нефть")
    await desk.hook(oil, receiver.url)
    await desk.archive.post(1, "нефть")
    assert await desk.alerts.look() == 1
    await desk.archive.run("DELETE FROM subscriptions")
    await desk.alerts.deliver()
    assert receiver.got == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/hook",
        "http://localhost/hook",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://10.0.0.1/",
        "https://intranet/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https://example.org:22/",
        "https://user:password@example.org\0/",
        "https://example.org/" + "x" * 5_000,
        "",
    ],
)
async def test_addresses_that_are_never_asked(url: str) -> None:
    webhooks = Webhooks(Poster(agent="test"), utc_now)
    with pytest.raises(Reject):
        webhooks.checked(url)
    with pytest.raises(Reject):
        await webhooks.send(url, SECRET, b"{}")


async def test_a_name_that_leads_inside_is_found_out_when_it_is_asked() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    webhooks = Webhooks(Poster(agent="test", resolve=resolve), utc_now)
    assert webhooks.checked("https://example.org/hook") == "https://example.org/hook"
    with pytest.raises(Reject, match=r"127\.0\.0\.1"):
        await webhooks.send("https://example.org/hook", SECRET, b"{}")


async def test_a_webhook_that_says_nothing_does_not_hold_us() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # connections are taken, and nothing comes back
        port = silent.getsockname()[1]
        webhooks = Webhooks(Poster(agent="test", allow=frozenset({("127.0.0.1", port)}), seconds=0.2), utc_now)
        with pytest.raises(Retry, match="did not answer"):
            await webhooks.send(f"http://127.0.0.1:{port}/", SECRET, b"{}")


async def test_only_one_process_looks_at_a_time(desk: Desk, redis: Redis, lexicon: Lexicon, receiver: Receiver) -> None:
    other = make_alerts(desk.archive.database, redis, lexicon, receiver)
    assert await desk.alerts.lock.hold()
    assert not await other.lock.hold()
    await desk.alerts.lock.release()
    assert await other.lock.hold()
    assert await redis.exists(ALERTS_LOCK)


async def test_it_runs_as_a_supervised_task(desk: Desk, redis: Redis) -> None:
    oil = await desk.save("нефть")
    supervisor = Supervisor()
    async with redis.pubsub() as channel:
        await channel.subscribe(alerts_told(SYSTEM))
        task = await supervisor.start("alerts", desk.alerts.run)
        await desk.archive.post(1, "нефть")
        message = None
        while message is None or message["type"] != "message":
            message = await channel.get_message(timeout=300)
        await supervisor.stop()
    assert json.loads(message["data"])["search_id"] == str(oil.id)
    assert task.failures == 0
    assert not await redis.exists(ALERTS_LOCK), "whoever comes next need not wait"
