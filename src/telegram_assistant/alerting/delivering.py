"""The loop of alerts: look, queue, send. One process does it at a time.

The text of an alert is made when it is sent: what was deleted or hidden meanwhile is not in it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from telegram_assistant.alerting.places import Limited, Places, Secret
from telegram_assistant.alerting.watching import Watch
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.alerting import Action, Delivery, Message, Topic, Way
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.alerts import AlertChannels, AlertDeliveries
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts
from telegram_assistant.stores.sealed import Sealer

PAUSE = 5.0  # seconds between two rounds; with OF_ONE that is less than one message a second, which is Slack's limit
SLOW_EVERY = 60.0  # seconds between two looks at channels and storage
PRUNED_EVERY = 3600.0
LOCK_TTL = 120.0  # longer than one round takes
ATTEMPTS = 6
BACKOFF = Backoff(base=30.0, factor=4.0, cap=6 * 3600.0)
OLDEST = timedelta(days=2)  # who was too fast for so long is not heard any more
ANOTHER_KEY = "the key of this installation is another one: set this place anew"
LONGEST_TEXT = 1_000
LONGEST_COMPARED = 4_000  # characters; comparing takes the product of two lengths
MOST_NAMES = 5
SAME_WORDS = 6  # that are shown around a change

_WORDS = re.compile(r"\S+")
_SEVERITIES = {"gone": "error", "failing": "error", "full": "error", "holes": "warning", "warning": "warning"}
_TITLES = {
    "edited": "{title}: a post that you watch was edited",
    "deleted": "{title}: a post that you watch was deleted",
    "gone": "{title} cannot be read any more",
    "failing": "{title} cannot be read since {since}",
    "holes": "{title}: {unknown} messages cannot be fetched",
    "warning": "{percent} % of the storage quota of {megabytes} MB are used",
    "full": "The storage quota of {megabytes} MB is used up: files are not downloaded any more",
}
_OVER = {
    "gone": "{title} can be read again",
    "failing": "{title} can be read again",
    "holes": "{title}: nothing is missing any more",
    "warning": "There is room in the storage again",
    "full": "There is room in the storage again",
}

log = get_logger(__name__)


OF_ONE, MOST = 4, 200


@dataclass
class Alerting:
    """Finds and delivers."""

    watch: Watch
    channels: AlertChannels
    deliveries: AlertDeliveries
    words: Words
    places: Places
    sealer: Sealer
    lock: Lock
    _slow: float = -SLOW_EVERY
    _pruned: float = -PRUNED_EVERY

    async def run(self, task: Task) -> None:
        """The job of a supervised task."""
        task.ready()
        try:
            while True:
                if await self.lock.hold():
                    await self.once()
                task.progress()
                await asyncio.sleep(PAUSE)
        finally:
            await self.lock.release()

    async def once(self) -> int:
        """One round; how many messages were tried."""
        now = asyncio.get_running_loop().time()
        await self.watch.look_at_posts()
        if now - self._slow >= SLOW_EVERY:
            self._slow = now
            await self.watch.look_at_channels()
            await self.watch.look_at_storage()
        if now - self._pruned >= PRUNED_EVERY:
            self._pruned = now
            await self.deliveries.prune()
            await self.watch.notices.prune()
        await self.deliveries.enqueue()
        return await self.deliver()

    async def deliver(self) -> int:
        """What is due, to each place in its order; a place that hangs does not hold up the others."""
        due = await self.deliveries.due(each=OF_ONE, most=MOST)
        by_place = [(place, list(ones)) for place, ones in groupby(due, key=attrgetter("channel_id"))]
        await asyncio.gather(*(self._to(place, ones) for place, ones in by_place))
        return len(due)

    async def _to(self, place: UUID, ones: list[Delivery]) -> None:
        found = await self.channels.secret(place)
        if found is None:
            return  # removed meanwhile, and its deliveries with it
        try:
            secret = unsealed(self.sealer, place, found[1])
        except Reject as exc:
            for one in ones:
                await self.deliveries.failed(one, str(exc), None)
            return
        for one in ones:
            if not await self._send(found[0], secret, one):
                return

    async def _send(self, kind: Way, secret: Secret, one: Delivery) -> bool:
        """False: the next ones for this place would end alike."""
        message = await self.words.message(one)
        if message is None:
            await self.deliveries.failed(one, "what it is about is not there any more", None)
            return True
        try:
            await self.places.send(kind, secret, message)
        except Limited as exc:
            old = datetime.now(UTC) - one.created_at > OLDEST
            await self.deliveries.failed(one, str(exc), None if old else exc.after, counted=False)
            await self.deliveries.hold(one.channel_id, exc.after or 0.0)
            return False
        except Reject as exc:
            await self.deliveries.failed(one, str(exc), None)
            log.warning("alert_refused", kind=kind, reason=str(exc))
        except Retry as exc:
            attempt = one.attempts + 1
            await self.deliveries.failed(one, str(exc), None if attempt >= ATTEMPTS else BACKOFF.delay(attempt))
            return False
        else:
            await self.deliveries.delivered(one)
        return True


def place_secret_owner(channel_id: UUID) -> str:
    """Sealed for one place it opens for no other."""
    return f"alerts:{channel_id}"


def unsealed(sealer: Sealer, channel_id: UUID, sealed: bytes) -> Secret:
    """Raises Reject: it is no session that cannot be opened, and nothing to stop for."""
    try:
        found: dict[str, str] = json.loads(sealer.unseal(sealed, owner=place_secret_owner(channel_id)))
    except Fatal as exc:
        raise Reject(ANOTHER_KEY) from exc
    return found


@dataclass(frozen=True)
class Words:
    """`base`: the address of our pages, if it is known."""

    posts: VisiblePosts
    watched: WatchedPosts
    deliveries: AlertDeliveries
    base: str | None

    async def message(self, delivery: Delivery) -> Message | None:
        """None: what it is about is not there any more."""
        content, topic = delivery.content, Topic(str(delivery.content.get("topic", "post")))
        if topic is Topic.SEARCH:
            return await self._found(delivery, UUID(str(content["post_id"])))
        if topic is Topic.POST:
            text = await self._edit(delivery.tenant_id, content)
            return _message(
                delivery, topic, text=text, url=self._page(f"/posts/{content['post_id']}") or str(content["url"])
            )
        if topic is Topic.CHANNEL:
            error = str(content.get("error") or "")
            name = content.get("username")
            address = self._page(f"/channels/{content['channel_id']}") or (f"https://t.me/{name}" if name else None)
            return _message(delivery, topic, text="" if delivery.action is Action.RESOLVE else error, url=address)
        return _message(delivery, topic, url=self._page("/storage"))

    async def _found(self, delivery: Delivery, post_id: UUID) -> Message | None:
        shown = (await self.posts.posts(delivery.tenant_id, [post_id])).get(post_id)
        if shown is None or shown.deleted:
            return None
        names = await self.deliveries.searches(delivery.tenant_id, post_id, limit=MOST_NAMES + 1)
        told = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
        return Message(
            topic=Topic.SEARCH,
            action=delivery.action,
            dedup_key=delivery.dedup_key,
            title=f"{shown.channel_title}: {told or 'a saved search'}",
            text=shown.text[:LONGEST_TEXT],
            url=self._page(f"/posts/{post_id}") or shown.url,
            at=delivery.created_at,
            details={"posted": shown.posted_at.isoformat(), "in Telegram": shown.url},
        )

    async def _edit(self, tenant_id: UUID, content: Mapping[str, Any]) -> str:
        if content.get("code") != "edited":
            return ""
        old, new = int(content["from"]), int(content["to"])
        texts = await self.watched.texts(tenant_id, UUID(str(content["post_id"])), [old, new])
        if old not in texts or new not in texts:
            return ""
        return change_in_words(texts[old], texts[new]) or "only its formatting or media changed"

    def _page(self, path: str) -> str | None:
        return f"{self.base.rstrip('/')}{path}" if self.base else None


def change_in_words(old: str, new: str) -> str:
    """What went in [-brackets-], what came in {+braces+}, a few words around; empty when nothing changed."""
    before, after = _WORDS.findall(old[:LONGEST_COMPARED]), _WORDS.findall(new[:LONGEST_COMPARED])
    parts: list[str] = []
    changed = False
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(_shortened(after[j1:j2]))
            continue
        changed = True
        gone, come = " ".join(before[i1:i2]), " ".join(after[j1:j2])
        parts += [f"[-{gone}-]"] * bool(gone) + [f"{{+{come}+}}"] * bool(come)
    return " ".join(parts)[:LONGEST_TEXT] if changed else ""


def _shortened(words: list[str]) -> str:
    if len(words) <= 2 * SAME_WORDS:
        return " ".join(words)
    return f"{' '.join(words[:SAME_WORDS])} … {' '.join(words[-SAME_WORDS:])}"


def _message(delivery: Delivery, topic: Topic, *, text: str = "", url: str | None = None) -> Message:
    content = delivery.content
    code = str(content.get("code", ""))
    words = _OVER if delivery.action is Action.RESOLVE else _TITLES
    return Message(
        topic=topic,
        action=delivery.action,
        dedup_key=delivery.dedup_key,
        title=words[code].format(**content),
        text=text,
        url=url,
        severity=_SEVERITIES.get(code, "info"),
        at=delivery.created_at,
    )
