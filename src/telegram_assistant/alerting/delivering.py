"""The loop of alerts: look, put on the way, send. One process does it at a time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from telegram_assistant.alerting.messages import Words
from telegram_assistant.alerting.places import Limited, Places, Secret
from telegram_assistant.alerting.watching import Watch
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.alerting import Delivery, Way
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.alerts import AlertChannels, AlertDeliveries
from telegram_assistant.stores.sealed import Sealer

PAUSE = 5.0  # seconds between two rounds; with OF_ONE that is less than one message a second, which is Slack's limit
SLOW_EVERY = 60.0  # seconds between two looks at channels and storage
PRUNED_EVERY = 3600.0
LOCK_TTL = 120.0  # longer than one round takes
OF_ONE, MOST = 4, 200
ATTEMPTS = 6
BACKOFF = Backoff(base=30.0, factor=4.0, cap=6 * 3600.0)
OLDEST = timedelta(days=2)  # who was too fast for so long is not heard any more
ANOTHER_KEY = "the key of this installation is another one: set this place anew"

log = get_logger(__name__)


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
        message = await self.words.of(one)
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


def secret_owner(channel_id: UUID) -> str:
    """Sealed for one place it opens for no other."""
    return f"alerts:{channel_id}"


def unsealed(sealer: Sealer, channel_id: UUID, sealed: bytes) -> Secret:
    """Raises Reject: it is no session that cannot be opened, and nothing to stop for."""
    try:
        found: dict[str, str] = json.loads(sealer.unseal(sealed, owner=secret_owner(channel_id)))
    except Fatal as exc:
        raise Reject(ANOTHER_KEY) from exc
    return found
