"""Looks for what has to be told: watched posts that changed, channels in trouble, quotas that are nearly used up."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from redis.asyncio import Redis

from telegram_assistant.domain.alerting import Condition, Topic
from telegram_assistant.domain.storage import Quota, Standing
from telegram_assistant.log import get_logger
from telegram_assistant.names import alerts_told
from telegram_assistant.stores.postgres.alerts import Notices
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.stores.postgres.watched_posts import ChangedPost, ChannelState, WatchedPosts

AT_ONCE = timedelta(0)
BATCH = 1_000
LONGEST_ERROR = 300

log = get_logger(__name__)


@dataclass(frozen=True)
class Watch:
    """`patience`: so long a channel may fail before an alert."""

    posts: WatchedPosts
    notices: Notices
    storage: Storage
    redis: Redis
    patience: timedelta
    clock: Callable[[], datetime]

    async def look_at_posts(self) -> int:
        """How many changes were told."""
        told = 0
        while changed := await self.posts.changed(limit=BATCH):
            by_tenant: defaultdict[UUID, list[ChangedPost]] = defaultdict(list)
            for one in changed:
                by_tenant[one.tenant_id].append(one)
            for tenant_id, ones in by_tenant.items():
                seen = await self.posts.seen_by(tenant_id, [one.post_id for one in ones if not one.gone])
                for one in ones:
                    if one.gone or one.post_id in seen:
                        told += await self._tell(one)
                    await self.posts.known(one)
            if len(changed) < BATCH:
                break
        return told

    async def look_at_channels(self) -> tuple[int, int]:
        """How many troubles began, and how many are over."""
        now = self.clock()
        found = [one for channel in await self.posts.channels() if (one := trouble(channel, now, self.patience))]
        return await self.notices.settle(Topic.CHANNEL, found, now)

    async def look_at_storage(self) -> tuple[int, int]:
        found = [one for quota in await self.storage.limited() for one in shortages(quota)]
        return await self.notices.settle(Topic.STORAGE, found, self.clock())

    async def _tell(self, one: ChangedPost) -> int:
        content = _change(one)
        if content is None:
            return 0
        await self.notices.happened(one.tenant_id, one.user_id, _key(one), content)
        log.info("watched_post_changed", post_id=str(one.post_id), change=content["code"])
        message = json.dumps({"notice": content["code"], "user_id": str(one.user_id), "post_id": str(one.post_id)})
        await self.redis.publish(alerts_told(one.tenant_id), message)
        return 1


def trouble(channel: ChannelState, now: datetime, patience: timedelta) -> Condition | None:
    """One at a time for a channel, the worst: it is gone, it fails, or some of its posts cannot be had."""
    content: dict[str, Any] = {"channel_id": channel.id, "title": channel.title, "username": channel.username}
    content["error"] = " ".join((channel.last_error or "").split())[:LONGEST_ERROR]
    key = f"channel:{channel.id}"
    if channel.status == "dead":
        content["code"] = "gone"
        return Condition(tenant_id=channel.tenant_id, key=key, content=content, patience=AT_ONCE)
    since = channel.last_success_at or channel.created_at
    if channel.failures and now - since >= patience:
        content |= {"code": "failing", "since": f"{since:%Y-%m-%d %H:%M} UTC"}
        return Condition(tenant_id=channel.tenant_id, key=key, content=content, patience=AT_ONCE)
    if channel.unknown > 0:
        content |= {"code": "holes", "unknown": channel.unknown}
        return Condition(tenant_id=channel.tenant_id, key=key, content=content, patience=patience, left=channel.unknown)
    return None


def shortages(quota: Quota) -> Iterator[Condition]:
    """From 80 % on, and once more when nothing is left."""
    content = {"percent": round(quota.percent), "megabytes": quota.megabytes}
    if quota.standing is not Standing.OK:
        yield _shortage(quota, "warning", content)
    if quota.standing is Standing.FULL:
        yield _shortage(quota, "full", content)


def _shortage(quota: Quota, code: str, content: dict[str, Any]) -> Condition:
    key = f"storage:{code}"
    return Condition(tenant_id=quota.tenant_id, key=key, content={**content, "code": code}, patience=AT_ONCE)


def _change(one: ChangedPost) -> dict[str, Any] | None:
    """None: it came back, which needs no alert."""
    content: dict[str, Any] = {"post_id": str(one.post_id), "title": one.title, "url": one.url}
    if one.deleted and not one.known_deleted:
        return content | {"code": "deleted"}
    if one.version is not None and one.version > one.known:
        return content | {"code": "edited", "from": one.known, "to": one.version}
    return None


def _key(one: ChangedPost) -> str:
    gone = one.deleted and not one.known_deleted
    return f"post:{one.post_id}:{'deleted' if gone else 'edited'}:{one.version or one.known}"
