"""A post with everything that can hang on one, saved as ingest and the stages save it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from telegram_assistant.domain.events import Step
from telegram_assistant.domain.models import Classification, Identity, Ocr, Seen
from telegram_assistant.domain.post import Counters, Forward, Media, MediaKind, Poll, Post, ReplyTo
from telegram_assistant.domain.text import Entity, EntityKind, Link
from telegram_assistant.stores.postgres.enrichment import Enrichment
from telegram_assistant.stores.postgres.pages import Page
from tests.integration.search.archive import NEWS, SYSTEM, Archive
from tests.integration.stages.desk import POSTED, Desk, drawing

LINK = "https://example.org/weather"
FIRST = "Снег 🙂 выпал в Москве, пишет @meteo. Подробности по ссылке #погода"
SECOND = "Сильный снег 🙂 выпал в Москве и Твери, пишет @meteo. Подробности по ссылке #погода"
LAST = "<script>document.title = 'hacked'</script> Сильный снег 🙂 выпал в Москве и Твери, пишет @meteo #погода"


def found_in(text: str, words: str, kind: EntityKind, url: str | None = None) -> Entity:
    """An entity where these words stand, counted as Telegram counts."""
    offset = len(text[: text.index(words)].encode("utf-16-le")) // 2
    return Entity(kind, offset, len(words.encode("utf-16-le")) // 2, url)


def entities(text: str) -> tuple[Entity, ...]:
    return (
        found_in(text, "снег", EntityKind.BOLD) if "снег" in text else found_in(text, "Снег", EntityKind.BOLD),
        found_in(text, "@meteo", EntityKind.MENTION),
        found_in(text, "#погода", EntityKind.HASHTAG),
        found_in(text, "Москве", EntityKind.TEXT_URL, "javascript:alert(1)"),
        Entity(EntityKind.ITALIC, -5, 10**12),
    )


@dataclass
class Newsroom:
    """Makes posts of a channel."""

    archive: Archive
    desk: Desk
    channel: int = NEWS

    def post(self, number: int, words: str = "", **fields: Any) -> Post:
        return Post(
            channel_id=self.channel,
            message_id=number,
            posted_at=fields.pop("posted_at", POSTED + timedelta(minutes=number)),
            text=words,
            **fields,
        )

    def photo(self, number: int, words: str = "", **fields: Any) -> Post:
        media = Media(kind=MediaKind.PHOTO, file_id=f"{self.channel}-{number}", mime="image/png", width=400, height=300)
        return self.post(number, words, media=(media,), **fields)

    async def save(self, *posts: Post) -> list[UUID]:
        """Stored, and to be found."""
        await self.desk.save(*posts)
        for one in posts:
            album = await self.archive.rows("SELECT group_id FROM media_group_items WHERE post_id = :id", id=one.id)
            await self.archive.index(
                self.archive.source(
                    one.message_id,
                    one.text,
                    channel=self.channel,
                    posted_at=one.posted_at,
                    album_id=album[0].group_id if album else None,
                )
            )
        return [one.id for one in posts]

    async def picture(self, one: Post, seed: int) -> str:
        """Its file, looked at."""
        sha256 = await self.desk.store(one, drawing(seed, (800, 600)))
        seen = Seen(
            classification=Classification.PHOTO,
            description=f"Picture {seed} <of> snow",
            labels=("photo", "landscape", "white"),
            ocr=Ocr(text="СНЕГОПАД & ветер", engine="tesseract", confidence=0.9),
            nsfw_score=0.01,
            dominant_colors=("#f4f4f4", "#204080"),
            provider="local",
            model="rules",
        )
        await self.desk.pictures.put(sha256, seen, identity=Identity("local", "rules"))
        return sha256

    async def album(self, first: int, size: int) -> tuple[list[Post], list[str]]:
        """Pictures in one album; their hashes."""
        grouped = first * 1000
        items = [self.photo(first + n, "Альбом про снег" if n == 0 else "", grouped_id=grouped) for n in range(size)]
        await self.save(*items)
        return items, [await self.picture(one, first + n) for n, one in enumerate(items)]

    async def story(self) -> Post:
        """Edited twice, forwarded, tagged, with pages, counters and a trace."""
        await self.save(self.post(1, "Прежний пост"))
        common: dict[str, Any] = {
            "links": (Link(LINK, "ссылке", hidden=True),),
            "forward": Forward(channel_id=self.channel, message_id=1, posted_at=POSTED),
            "reply_to": ReplyTo(message_id=1),
            "author": "Редакция",
        }
        for words, views in ((FIRST, 10), (SECOND, 2500), (LAST, 12_000)):
            counters = Counters.counted(views=views, forwards=views // 100, replies=3, reactions={"👍": views // 50})
            last = self.post(2, words, entities=entities(words), counters=counters, **common)
            await self.save(last)
        await self._findings(last)
        return last

    async def _findings(self, one: Post) -> None:
        tags = {
            "tags": ["снегопад", 'погода "сегодня"'],
            "topics": ["погода"],
            "entities": [{"kind": "place", "name": "Москва"}, {"kind": "person", "name": "<b>Иван</b>"}],
            "language": "ru",
        }
        await self.desk.enrichments.save("tags", [Enrichment(one.id, one.content_hash, tags, "local")])
        page = Page(
            url=LINK, title="Погода <в> Москве", text="Идёт снег.", description="Прогноз на неделю", site="Example"
        )
        await self.desk.pages.save(page)
        await self.desk.pages.link(one.id, one.content_hash, [(LINK, LINK)], among=[LINK])
        await self.desk.steps.record([self.step(one, "tagging", 12.5)])
        await self.desk.steps.record([self.step(one, "indexing", 3.0, "waiting")])

    def step(self, one: Post, stage: str, took: float, outcome: str = "done") -> Step:
        return Step(
            post_id=one.id,
            stage=stage,
            outcome=outcome,
            note="<i>what came of it</i>",
            trace_id="trace",
            content_hash=one.content_hash,
            duration_ms=took,
        )

    def poll(self, number: int, question: str, answers: Sequence[str]) -> Post:
        return self.post(number, poll=Poll(question=question, answers=tuple(answers), voters=7))

    async def subscribe(self, tenant: UUID) -> None:
        await self.archive.run(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
            tenant=tenant,
            user=self.archive.users[tenant],
            channel=self.channel,
        )

    async def unsubscribe(self, tenant: UUID = SYSTEM) -> None:
        await self.archive.run(
            "DELETE FROM subscriptions WHERE tenant_id = :tenant AND channel_id = :channel",
            tenant=tenant,
            channel=self.channel,
        )
