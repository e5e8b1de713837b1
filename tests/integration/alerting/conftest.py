"""Alerts of a tenant with places to send them to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from telegram_assistant.access.people import system_caller
from telegram_assistant.alerting import delivering
from telegram_assistant.alerting.delivering import Alerting
from telegram_assistant.config import Settings
from telegram_assistant.domain.alerting import AlertChannel, Delivery, Notice, Topic, Way
from telegram_assistant.services.alerts import AlertPlaceActions
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stores.postgres.users import Tenant
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import open_alerting, open_places
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.alerting.outside import Outside, outside
from tests.integration.search.archive import SYSTEM, Archive


@pytest.fixture
async def world() -> AsyncIterator[Outside]:
    async with outside() as made:
        yield made


@dataclass
class Office:
    """What a test needs."""

    archive: Archive
    alerting: Alerting
    desk: AlertPlaceActions
    world: Outside
    now: Any

    @property
    def user(self) -> UUID:
        return self.archive.users[SYSTEM]

    async def place(self, kind: Way, *topics: Topic) -> AlertChannel:
        value = {
            Way.SLACK: self.world.slack_url,
            Way.PAGERDUTY: "0123456789abcdef0123456789ABCDEF",
            Way.WEBHOOK: f"{self.world.base}/hook",
        }[kind]
        return (await self.desk.add(kind, value, topics=topics))[0]

    async def round(self) -> None:
        """All of it, now."""
        await self.alerting.once()

    async def watch(self, post: UUID) -> None:
        assert await self.alerting.watch.posts.watch(SYSTEM, self.user, post)

    async def edit(self, post: UUID, words: str) -> None:
        await self.archive.run(
            "INSERT INTO post_versions (post_id, version, text, content_hash)"
            " SELECT id, version, text, content_hash FROM posts WHERE id = :id",
            id=post,
        )
        await self.archive.run(
            "UPDATE posts SET text = :words, version = version + 1, edited_at = now() WHERE id = :id",
            words=words,
            id=post,
        )

    async def notices(self) -> list[Notice]:
        return await self.alerting.watch.notices.of_user(SYSTEM, self.user, limit=100)

    async def deliveries(self) -> list[Delivery]:
        return await self.alerting.deliveries.newest(SYSTEM, limit=1000)

    async def due_now(self) -> None:
        await self.archive.run("UPDATE alert_deliveries SET due_at = now()")

    async def pass_by(self, **span: float) -> None:
        self.now.offset += timedelta(**span)


class Moving:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def __call__(self) -> Any:
        return utc_now() + self.offset


@pytest.fixture
async def office(
    archive: Archive, redis: Redis, world: Outside, services: Services, monkeypatch: pytest.MonkeyPatch
) -> Office:
    monkeypatch.setattr(delivering, "SLOW_EVERY", 0.0)
    settings = Settings(
        alert_loopback=f"127.0.0.1:{world.port}", pagerduty_url=f"{world.base}/v2/enqueue", hostname="test"
    )
    sealer, clock = Sealer("key"), Moving()
    places = open_places(settings, utc_now)
    alerting = open_alerting(archive.database, redis, sealer, places, settings=settings, clock=clock)
    sending = replace(services, senders=Senders(places, sealer))
    desk = AlertPlaceActions(sending, system_caller(Tenant(SYSTEM, "system", utc_now(), users=1, channels=0)))
    return Office(archive, alerting, desk, world, clock)
