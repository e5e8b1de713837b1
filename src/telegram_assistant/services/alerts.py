"""Saved searches, and the places of a tenant that alerts are sent to: what the API and the pages do alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID, uuid4

from telegram_assistant.alerting.delivering import place_secret_owner, unsealed
from telegram_assistant.alerting.places import NAME
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.alerting import LONGEST_NAME as LONGEST_PLACE_NAME
from telegram_assistant.domain.alerting import Action, AlertChannel, Message, Topic, Way
from telegram_assistant.domain.query import parse_query
from telegram_assistant.domain.saved_search import LONGEST_NAME, LONGEST_QUERY, SavedSearch
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.search.alerts import new_secret, secret_owner, trial_body
from telegram_assistant.services.services import Senders, Services
from telegram_assistant.stores.postgres.alerts import AlertChannels
from telegram_assistant.stores.postgres.saved_searches import SavedSearches


def _senders(services: Services) -> Senders:
    if services.senders is None:
        raise Retry("alerts are not sent here")
    return services.senders


class SavedSearchActions:
    """For one user of a tenant."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self.saved = SavedSearches(services.database)
        self.tenant_id, self.user_id = caller.tenant_id, caller.user_id

    async def save(self, query: str, name: str = "", *, web: bool = True) -> SavedSearch:
        """Raises Reject for a search that would find everything."""
        wanted = " ".join(clean_text(query).split())
        if len(wanted) > LONGEST_QUERY:
            raise Reject(f"a search that is kept may have at most {LONGEST_QUERY} characters")
        read = parse_query(wanted, now=self._services.clock())
        if not read.clauses and not read.only:
            raise Reject("a saved search needs at least one word or filter that a post must have")
        made = await self.saved.add(self.tenant_id, self.user_id, _name(name) or _name(wanted), wanted, web=web)
        return await self._again(made)

    async def rename(self, search: SavedSearch, name: str) -> SavedSearch:
        if not _name(name):
            raise Reject("the name is empty")
        await self.saved.change(search, name=_name(name))
        return await self._again(search.id)

    async def change(self, search: SavedSearch, *, web: bool | None = None, muted: bool | None = None) -> SavedSearch:
        await self.saved.change(search, web=web, muted=muted)
        return await self._again(search.id)

    async def set_webhook(self, search: SavedSearch, url: str) -> str:
        """Its new secret, which is shown once. Raises Reject for an address that is never asked."""
        senders = _senders(self._services)
        address = senders.places.webhooks.checked(clean_text(url).strip())
        secret = new_secret()
        await self.saved.set_webhook(search, address, senders.sealer.seal(secret, owner=secret_owner(search.id)))
        return secret

    async def drop_webhook(self, search: SavedSearch) -> None:
        await self.saved.set_webhook(search, None, None)

    async def try_webhook(self, search: SavedSearch) -> int:
        """The status that came back, 2xx. Raises Retry or Reject with the reason."""
        senders = _senders(self._services)
        sealed = await self.saved.secret(search)
        if search.webhook_url is None or sealed is None:
            raise Reject("this search has no webhook")
        try:
            secret = senders.sealer.unseal(sealed, owner=secret_owner(search.id))
        except Fatal as exc:
            raise Reject("the key of this installation is another one: set the webhook anew") from exc
        return await senders.places.webhooks.send(search.webhook_url, secret, trial_body(search))

    async def _again(self, search_id: UUID) -> SavedSearch:
        found = await self.saved.get(self.tenant_id, self.user_id, search_id)
        if found is None:
            raise Reject("this search was removed meanwhile")
        return found


def _name(text: str) -> str:
    return " ".join(clean_text(text).split())[:LONGEST_NAME]


USUAL = {  # what each kind of place is told unless an admin chooses
    Way.SLACK: tuple(Topic),
    Way.WEBHOOK: tuple(Topic),
    Way.PAGERDUTY: (Topic.CHANNEL, Topic.STORAGE),
}


class AlertPlaceActions:
    """For an admin of a tenant."""

    def __init__(self, services: Services, admin: Caller) -> None:
        self._services = services
        self._admin = admin
        self.channels = AlertChannels(services.database)
        self.tenant_id = admin.tenant_id

    async def add(
        self, kind: Way, value: str, name: str = "", topics: Sequence[Topic] = ()
    ) -> tuple[AlertChannel, str | None]:
        """With the new secret of a webhook, which is shown once. Raises Reject with what is wrong."""
        senders = _senders(self._services)
        secret, hint = senders.places.read(kind, clean_text(value))
        channel = AlertChannel(
            id=uuid4(),  # known before the row is written: the secret is sealed for it
            tenant_id=self.tenant_id,
            kind=kind,
            name=" ".join(clean_text(name).split())[:LONGEST_PLACE_NAME] or kind.value,
            hint=hint,
            topics=tuple(dict.fromkeys(topics)) or USUAL[kind],
            enabled=True,
            created_at=self._services.clock(),
        )
        sealed = senders.sealer.seal(json.dumps(secret), owner=place_secret_owner(channel.id))
        await self.channels.add(channel, sealed)
        await self._record("alert_place_added", channel)
        return channel, secret.get("secret")

    async def test(self, channel: AlertChannel) -> None:
        """Raises Retry or Reject with the reason. An incident of PagerDuty is resolved at once."""
        senders = _senders(self._services)
        found = await self.channels.secret(channel.id)
        if found is None:
            raise Reject("this place was removed meanwhile")
        secret = unsealed(senders.sealer, channel.id, found[1])
        key = f"test:{channel.id}"
        actions = (Action.TRIGGER, Action.RESOLVE) if channel.kind is Way.PAGERDUTY else (Action.TRIGGER,)
        for action in actions:
            message = Message(
                topic=Topic.CHANNEL,
                action=action,
                dedup_key=key,
                title=f"A test of {NAME}: alerts arrive here",
                at=self._services.clock(),
            )
            await senders.places.send(channel.kind, secret, message)

    async def remove(self, place: AlertChannel) -> None:
        await self.channels.remove(place)
        await self._record("alert_place_removed", place)

    async def _record(self, action: str, place: AlertChannel) -> None:
        await self._services.access.record(self._admin, action, f"{place.kind} {place.name}")
