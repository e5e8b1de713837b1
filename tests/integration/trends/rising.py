"""An ordinary month, and what rises after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from telegram_assistant.domain.post import post_id
from telegram_assistant.language.documents import Source
from tests.integration.search.archive import Archive

CHANNELS = tuple(range(1001, 1011))
NOW = datetime(2026, 11, 13, tzinfo=UTC)  # a midnight
DAYS = 28
PLACES = ("Москва", "Тверь", "Пермь", "Уфа", "Сочи")
WORDS = (
    *("утро", "вечер", "город", "дорога", "вода", "поле", "зима", "лето", "хлеб", "песня", "школа"),
    *("театр", "музей", "парк", "река", "поезд", "билет", "книга"),
)


@dataclass
class Past:
    """Writes posts with tags, topics and entities, as tagging and indexing leave them."""

    archive: Archive
    count: int = 0

    def __post_init__(self) -> None:
        self.rng = Random(7)
        self._rows: list[dict[str, Any]] = []
        self._sources: list[Source] = []

    async def ordinary(self) -> None:
        """Each channel posts three times a day, about one of a few places."""
        for day in range(DAYS + 1):
            for channel in CHANNELS:
                for _ in range(3):
                    at = NOW - timedelta(days=day + self.rng.random())
                    place = self.rng.choice(PLACES)
                    self.post(channel, at, entities=[place], tags=[place.casefold()], topics=["city"])
        await self.flush()

    async def rise(self, name: str, channels: Sequence[int], *, before: timedelta = timedelta(hours=12)) -> list[UUID]:
        """Each channel tells of it in its own words, an hour apart."""
        told = [
            self.post(channel, NOW - before + timedelta(hours=number), entities=[name], tags=[name.casefold()])
            for number, channel in enumerate(channels)
        ]
        await self.flush()
        return told

    def post(
        self,
        channel: int,
        at: datetime,
        *,
        entities: Sequence[str] = (),
        tags: Sequence[str] = (),
        topics: Sequence[str] = (),
        words: str | None = None,
        forward: tuple[int, int] | None = None,
    ) -> UUID:
        """Kept until `flush`."""
        self.count += 1
        said = words if words is not None else " ".join(self.rng.choices(WORDS, k=14))
        details = {"forward": {"channel_id": forward[0], "message_id": forward[1]}} if forward else {}
        made = post_id(channel, self.count)
        self._rows.append(
            {
                "id": made,
                "channel": channel,
                "number": self.count,
                "at": at,
                "text": said,
                "details": json.dumps(details),
                "data": json.dumps({"entities": [{"kind": "place", "name": name} for name in entities]}),
            }
        )
        self._sources.append(
            self.archive.source(self.count, said, channel=channel, posted_at=at, tags=tuple(tags), topics=tuple(topics))
        )
        return made

    async def flush(self) -> None:
        rows = {name: [row[name] for row in self._rows] for name in self._rows[0]}
        await self.archive.run(
            "INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash, details)"
            " SELECT i, c, n, a, t, '', CAST(d AS jsonb) FROM unnest(CAST(:id AS uuid[]), CAST(:channel AS bigint[]),"
            " CAST(:number AS bigint[]), CAST(:at AS timestamptz[]), CAST(:text AS text[]), CAST(:details AS text[]))"
            " AS x(i, c, n, a, t, d)",
            **{name: values for name, values in rows.items() if name != "data"},
        )
        await self.archive.run(
            "INSERT INTO post_enrichment (post_id, kind, content_hash, data, provider)"
            " SELECT i, 'tags', '', CAST(d AS jsonb), 'local'"
            " FROM unnest(CAST(:id AS uuid[]), CAST(:data AS text[])) AS x(i, d)",
            id=rows["id"],
            data=rows["data"],
        )
        await self.archive.index(*self._sources)
        self._rows.clear()
        self._sources.clear()
