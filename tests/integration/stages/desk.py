"""Posts saved as ingest saves them and told through the outbox, for the stages that come after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.bus.streams import FIELD, Publisher, decode
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import EVENTS, Event, MediaSettled, PostVisionAnalyzed
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Media, MediaKind, Post
from telegram_assistant.ingest.relay import Relay
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.names import POSTS_VISION_ANALYZED, stream
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.budgets import Budgets, ModelUsage
from telegram_assistant.stores.postgres.enrichment import Enrichments, Pictures, StoredPosts
from telegram_assistant.stores.postgres.media import MediaQueue, Wanted
from telegram_assistant.stores.postgres.pages import Pages
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Steps
from telegram_assistant.wiring.runtime import utc_now
from tests.metrics import sample

CHANNEL = 77
SYSTEM = UUID(SYSTEM_TENANT)
POSTED = datetime(2026, 11, 1, 12, tzinfo=UTC)
WEATHER = (
    "Российские учёные из МГУ представили новую модель, которая предсказывает погоду в Москве на неделю вперёд."
    " Метеорологи обещают точность до одного градуса и готовят прогноз для всей страны."
)
FOOTBALL = (
    "Футбольный клуб «Спартак» обыграл «Зенит» в финале Кубка России. Матч закончился победой. Тренер команды похвалил"
    " вратаря, болельщики праздновали победу в центре города до утра."
)


def post(number: int, words: str = "", *, channel_id: int = CHANNEL, **fields: Any) -> Post:
    posted_at = fields.pop("posted_at", POSTED + timedelta(minutes=number))
    return Post(channel_id=channel_id, message_id=number, posted_at=posted_at, text=words, **fields)


def photo(number: int, words: str = "", *, files: int = 1, **fields: Any) -> Post:
    """A post with pictures, which are not here yet."""
    media = [Media(kind=MediaKind.PHOTO, file_id=f"{number}-{n}", mime="image/png") for n in range(files)]
    return post(number, words, media=tuple(media), **fields)


def drawing(seed: int, size: tuple[int, int] = (160, 120), words: Sequence[str] = (), kind: str = "PNG") -> bytes:
    """Coloured boxes, or words in large letters; the same every time."""
    rng = Random(seed)
    image = Image.new("RGB", (400, 300) if not words else (1000, 120 + 90 * len(words)), "#f4f4f4")
    draw = ImageDraw.Draw(image)
    for _ in range(0 if words else 14):
        left, right = sorted(rng.randrange(400) for _ in range(2))
        top, bottom = sorted(rng.randrange(300) for _ in range(2))
        draw.rectangle((left, top, right, bottom), fill=(rng.randrange(256), rng.randrange(256), rng.randrange(256)))
    for number, line in enumerate(words):
        draw.text((60, 60 + 90 * number), line, "black", ImageFont.load_default(size=54))
    if not words:
        image = image.resize(size)
    out = BytesIO()
    image.save(out, kind)
    return out.getvalue()


def clouds(seed: int, size: tuple[int, int] = (320, 213)) -> bytes:
    """Something like a photo: it can be known again in another size."""
    rng, width, height = np.random.default_rng(seed), 320, 213
    squares = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.fftfreq(width)[None, :] ** 2
    squares[0, 0] = 1
    layers = []
    for _ in range(3):
        waves = np.fft.ifft2(np.fft.fft2(rng.normal(size=(height, width))) / squares**0.5).real
        layers.append(rng.integers(90, 160) + 45 * waves / waves.std())
    out = BytesIO()
    Image.fromarray(np.clip(np.stack(layers, axis=2), 0, 235).astype(np.uint8)).resize(size).save(out, "PNG")
    return out.getvalue()


def events_of(outcomes: Iterable[Outcome]) -> list[Any]:
    """Everything that came out of a stage."""
    return [event for outcome in outcomes if isinstance(outcome, Done) for event in outcome.events]


def analyzed(event: MediaSettled, *, pictures: int = 1, grouped_id: int | None = None) -> PostVisionAnalyzed:
    """What vision tells of a post whose files are settled."""
    return PostVisionAnalyzed(
        trace_id=event.trace_id,
        occurred_at=utc_now(),
        idempotency_key=f"{POSTS_VISION_ANALYZED}:{event.post_id}:{event.content_hash}",
        tenant_id=event.tenant_id,
        channel_id=event.channel_id,
        post_id=event.post_id,
        content_hash=event.content_hash,
        pictures=pictures,
        left_out=1 - pictures,
        grouped_id=grouped_id,
    )


def asked(ability: str) -> float:
    """How often the local models were asked so far."""
    return sample("ai_requests_total", provider="local", ability=ability, outcome="ok")


@dataclass
class Desk:
    """Saves posts, settles their files, and reads what the streams have."""

    database: AsyncEngine
    redis: Redis
    media: MediaStore
    retention: str = "keep"
    _read: dict[str, str] = field(default_factory=dict)
    _leased: dict[tuple[UUID, int], Wanted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored_posts = StoredPosts(self.database)
        self.enrichments = Enrichments(self.database)
        self.pages = Pages(self.database)
        self.pictures = Pictures(self.database)
        self.usage = ModelUsage(self.database, utc_now)
        self.budgets = Budgets(self.database)
        self.steps = Steps(self.database)
        self.letters = DeadLetters(self.database)
        self.queue = MediaQueue(self.database)

    @property
    def saver(self) -> Saver:
        return Saver(
            self.database, clock=utc_now, decide_media=lambda _: MediaDecision("pending"), retention=self.retention
        )

    async def open_channel(
        self, channel_id: int = CHANNEL, *, username: str | None = "news", tenant: UUID | None = None
    ) -> None:
        await self.change(
            "INSERT INTO channels (id, title, username, tenant_id, requested_from)"
            " VALUES (:id, :title, :name, :tenant, 1)",
            id=channel_id,
            title=f"Channel {channel_id}",
            name=username,
            tenant=tenant,
        )

    async def tenant(self, name: str) -> UUID:
        """With one user, whose id is the same."""
        made = uuid4()
        await self.change("INSERT INTO tenants (id, name) VALUES (:id, :name)", id=made, name=name)
        user = "INSERT INTO users (id, tenant_id, name, role) VALUES (:id, :id, :name, 'member')"
        await self.change(user, id=made, name=name)
        return made

    async def watch(self, tenant: UUID, channel_id: int) -> None:
        row = "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :tenant, :channel)"
        await self.change(row, tenant=tenant, channel=channel_id)

    async def save(self, *posts: Post, upto: int | None = None) -> Saved:
        """With `upto` the reading proves every id to there: what is not among the posts is gone."""
        proven = Coverage.of_spans((1, upto + 1)) if upto else Coverage.of_ids([one.message_id for one in posts])
        return await self.saver.save(Reading(channel_id=posts[0].channel_id, posts=posts, proven=proven))

    async def delete(self, one: Post) -> Saved:
        return await self.saver.delete(one.channel_id, [one.message_id])

    async def told(self, event: str) -> list[Any]:
        """What is new on a stream since this was asked last."""
        relay = Relay(self.database, Publisher(self.redis), self.saver.committed)
        while await relay.step():
            pass
        after = self._read.get(event)
        entries: Any = await self.redis.xrange(stream(event), min=f"({after}" if after else "-")
        if entries:
            self._read[event] = entries[-1][0]
        return [one for _, fields in entries for one in decode(EVENTS[event], fields[FIELD])]

    async def publish(self, event: str, events: Sequence[Event]) -> None:
        await Publisher(self.redis).publish(event, events)

    async def store(self, one: Post, content: bytes, *, position: int = 0, mime: str = "image/png") -> str:
        """The file of a post is here; its SHA-256."""

        async def pieces() -> AsyncIterator[bytes]:
            yield content

        wanted = await self._wanted(one, position)
        kept = await self.media.put(pieces(), tenant_id=SYSTEM, extension="png")
        await self.queue.stored(wanted, kept, mime, exists=self.media.exists)
        return kept.sha256

    async def skip(self, one: Post, reason: str, *, position: int = 0) -> None:
        assert await self.queue.skip(await self._wanted(one, position), reason)

    async def fail(self, one: Post, reason: str, *, position: int = 0) -> None:
        assert await self.queue.fail(await self._wanted(one, position), reason)

    async def adopt(self) -> None:
        """Files that their post had before an edit."""
        now = utc_now()
        await self.queue.adopt(await self.queue.take(limit=100, now=now, until=now + timedelta(hours=1)))

    async def _wanted(self, one: Post, position: int) -> Wanted:
        now = utc_now()
        for wanted in await self.queue.take(limit=100, now=now, until=now + timedelta(hours=1)):
            self._leased[wanted.key] = wanted
        return self._leased.pop((one.id, position))

    def begin_anew(self) -> None:
        """The streams are empty: Redis has lost what it held."""
        self._read.clear()

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.connect() as connection:
            return list(await connection.execute(text(statement), values))

    async def change(self, statement: str, **values: Any) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(statement), values)
