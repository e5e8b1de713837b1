"""Digests over an archive: a desk, a job with a clock that the test sets, and a period that the posts are in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.domain.digests import Content, Digest, Issue, Schedule, Wish, next_after
from telegram_assistant.jobs.digests import Delivery, DigestJob, DigestMaker, Limits, open_digest_maker
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from tests.integration.search.archive import POSTED

Town = Any  # of the conftest.py above, which cannot be imported


@pytest.fixture
def desk(services: Services, lexicon: Lexicon) -> DigestMaker:
    return open_digest_maker(services.settings, services.database, services.clock, lexicon=lexicon)


@pytest.fixture
def build(desk: DigestMaker, town: Town) -> Callable[..., Awaitable[Content]]:
    """An issue of three days of the archive, for a member of the system's tenant or for somebody else."""

    async def make(wish: Wish, **options: Any) -> Content:
        person = options.pop("person", town.member)
        used: DigestMaker = options.pop("desk", desk)
        since, until = POSTED - timedelta(days=1), POSTED + timedelta(days=2)
        return await used.build(person.tenant_id, person.user_id, wish, since, until, **options)

    return make


@dataclass
class Press:
    """Makes issues of one digest, day after day, beginning the day after the archive's posts."""

    services: Services
    desk: DigestMaker
    deliveries: list[Delivery] = field(default_factory=list)
    now: datetime = POSTED - timedelta(hours=1)
    page: str | None = "https://news.test/issue"
    limits: Limits | None = None

    def __post_init__(self) -> None:
        self.digests = Digests(self.services.database)
        self.issues = DigestIssues(self.services.database)

    @property
    def job(self) -> DigestJob:
        return DigestJob(
            self.digests,
            self.issues,
            self.desk,
            self.deliveries,
            clock=lambda: self.now,
            page=lambda _: self.page,
            limits=self.limits or Limits(),
        )

    async def ask(self, person: Any, **wish: Any) -> Digest:
        wanted = Wish(**{"name": "Утро", "schedule": Schedule(minute=0, zone="UTC"), **wish})
        next_at = next_after(wanted.schedule, self.now)
        made = await self.digests.add(person.tenant_id, person.user_id, wanted, next_at=next_at)
        found = await self.digests.get(person.tenant_id, person.user_id, made)
        assert found is not None
        return found

    async def day(self) -> str | None:
        """A day later, whatever is due."""
        self.now += timedelta(days=1)
        return await self.job(self.now)

    async def newest(self, digest: Digest) -> Issue:
        return (await self.issues.page(digest.tenant_id, digest.id, limit=1))[0]


@pytest.fixture
def press(services: Services, desk: DigestMaker) -> Press:
    return Press(services, desk)
