"""Places for alerts, as admins set them: what the API and the page do alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from telegram_assistant.access.service import Access
from telegram_assistant.alerting.delivering import secret_owner, unsealed
from telegram_assistant.alerting.places import NAME, Places
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.alerting import LONGEST_NAME, Action, AlertChannel, Message, Topic, Way
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.stores.postgres.alerts import AlertChannels
from telegram_assistant.stores.sealed import Sealer

USUAL = {  # what each kind of place is told unless an admin chooses
    Way.SLACK: tuple(Topic),
    Way.WEBHOOK: tuple(Topic),
    Way.PAGERDUTY: (Topic.CHANNEL, Topic.STORAGE),
}


@dataclass(frozen=True)
class AlertSenders:
    """What sending needs."""

    places: Places
    sealer: Sealer


@dataclass(frozen=True)
class AlertPlaceActions:
    """For the admins of one tenant."""

    channels: AlertChannels
    outlets: AlertSenders | None  # None: this process sends nothing
    clock: Callable[[], datetime]
    tenant_id: UUID

    async def add(
        self, kind: Way, value: str, name: str = "", topics: Sequence[Topic] = ()
    ) -> tuple[AlertChannel, str | None]:
        """With the new secret of a webhook, which is shown once. Raises Reject with what is wrong."""
        outlets = self._outlets()
        secret, hint = outlets.places.read(kind, clean_text(value))
        channel = AlertChannel(
            id=uuid4(),  # known before the row is written: the secret is sealed for it
            tenant_id=self.tenant_id,
            kind=kind,
            name=" ".join(clean_text(name).split())[:LONGEST_NAME] or kind.value,
            hint=hint,
            topics=tuple(dict.fromkeys(topics)) or USUAL[kind],
            enabled=True,
            created_at=self.clock(),
        )
        sealed = outlets.sealer.seal(json.dumps(secret), owner=secret_owner(channel.id))
        await self.channels.add(channel, sealed)
        return channel, secret.get("secret")

    async def test(self, channel: AlertChannel) -> None:
        """Raises Retry or Reject with the reason. An incident of PagerDuty is resolved at once."""
        outlets = self._outlets()
        found = await self.channels.secret(channel.id)
        if found is None:
            raise Reject("this place was removed meanwhile")
        secret = unsealed(outlets.sealer, channel.id, found[1])
        key = f"test:{channel.id}"
        actions = (Action.TRIGGER, Action.RESOLVE) if channel.kind is Way.PAGERDUTY else (Action.TRIGGER,)
        for action in actions:
            message = Message(
                topic=Topic.CHANNEL,
                action=action,
                dedup_key=key,
                title=f"A test of {NAME}: alerts arrive here",
                at=self.clock(),
            )
            await outlets.places.send(channel.kind, secret, message)

    async def record(self, access: Access, admin: Caller, action: str, place: AlertChannel) -> None:
        await access.record(admin, action, f"{place.kind} {place.name}")

    def _outlets(self) -> AlertSenders:
        if self.outlets is None:
            raise Retry("alerts are not sent here")
        return self.outlets
