"""What a tenant leaves behind in Redis, found and removed: keys, events on streams, events that wait."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any, cast

import msgspec
from redis.asyncio import Redis

from telegram_assistant.bus.streams import EVENTS, FIELD, encode
from telegram_assistant.names import (
    ALBUM_DEADLINES,
    channel_in_key,
    stream,
    waiting,
    waiting_events,
    waiting_taken,
)
from telegram_assistant.stages import STAGES
from telegram_assistant.stores.postgres.erasing import Belongings

AT_ONCE = 500
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _Named(msgspec.Struct):
    """What an event says about whose it is."""

    tenant_id: str = ""
    channel_id: int | None = None
    post_id: str = ""


class _Waiting(msgspec.Struct):
    """An event that waits, as far as it matters here."""

    payload: msgspec.Raw


class Sweeper:
    """Goes through all that is ours in Redis. What others have there is not touched."""

    def __init__(self, redis: Redis, belongings: Belongings) -> None:
        self._redis = redis
        self._all = belongings
        self._tenant = str(belongings.tenant_id)
        self._posts = {str(post) for post in belongings.public_posts}
        owned = {belongings.tenant_id, *belongings.users, *belongings.accounts, *belongings.albums}
        self._ids = {str(one) for one in owned}

    async def sweep(self) -> int:
        """How many things were removed."""
        removed = await self._keys()
        for event in EVENTS:
            removed += await self._stream(stream(event))
        for stage in STAGES:
            removed += await self._waiting(stage)
        return removed

    async def _keys(self) -> int:
        """Keys that carry the tenant, its people, its accounts, its albums or its channels in their name."""
        doomed = [key async for key in self._redis.scan_iter(count=AT_ONCE) if self._names_it(_text(key))]
        removed = 0
        for start in range(0, len(doomed), AT_ONCE):
            removed += int(await self._redis.delete(*doomed[start : start + AT_ONCE]))
        albums = [str(album) for album in self._all.albums]
        for start in range(0, len(albums), AT_ONCE):
            removed += int(await self._redis.zrem(ALBUM_DEADLINES, *albums[start : start + AT_ONCE]))
        return removed

    def _names_it(self, key: str) -> bool:
        return channel_in_key(key) in self._all.channels or not self._ids.isdisjoint(_UUID.findall(key))

    async def _stream(self, name: str) -> int:
        """An entry carries events of many: those of others are put back as a new entry, and handled again at worst."""
        removed, after = 0, "-"
        while entries := await cast("Awaitable[Any]", self._redis.xrange(name, min=after, count=AT_ONCE)):
            for entry_id, fields in entries:
                batch = _batch(fields.get(FIELD, ""))
                rest = [event for event in batch if not self._is_its(event)]
                if batch and len(rest) == len(batch):
                    continue
                if not batch and self._tenant not in str(fields):
                    continue  # nobody can read it, and it says nothing of the tenant
                async with self._redis.pipeline(transaction=True) as pipe:
                    if rest:
                        _ = pipe.xadd(name, {FIELD: encode(rest)})
                    _ = pipe.xdel(name, entry_id)
                    await pipe.execute()
                removed += 1
            after = f"({entries[-1][0]}"
        return removed

    async def _waiting(self, stage: str) -> int:
        doomed = []
        async for field, content in self._redis.hscan_iter(waiting_events(stage), count=AT_ONCE):
            try:
                is_its = self._is_its(msgspec.json.decode(content, type=_Waiting).payload)
            except msgspec.MsgspecError:
                is_its = self._tenant in content
            if is_its:
                doomed.append(field)
        if doomed:
            async with self._redis.pipeline(transaction=True) as pipe:
                _ = pipe.zrem(waiting(stage), *doomed)
                _ = pipe.hdel(waiting_events(stage), *doomed)
                _ = pipe.hdel(waiting_taken(stage), *doomed)
                await pipe.execute()
        return len(doomed)

    def _is_its(self, event: msgspec.Raw) -> bool:
        try:
            named = msgspec.json.decode(event, type=_Named)
        except msgspec.MsgspecError:
            return self._tenant.encode() in bytes(event)
        return named.tenant_id == self._tenant or named.channel_id in self._all.channels or named.post_id in self._posts


def _batch(payload: str) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(payload, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        return []


def _text(key: bytes | str) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key
