"""Saving a search, and where its alerts go: what the API and the page do alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from telegram_assistant.domain.query import parse_query
from telegram_assistant.domain.saved_search import LONGEST_NAME, LONGEST_QUERY, SavedSearch
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.search.alerts import secret_owner, trial_body
from telegram_assistant.search.webhooks import Webhooks, new_secret
from telegram_assistant.stores.postgres.saved_searches import SavedSearches
from telegram_assistant.stores.sealed import Sealer


@dataclass(frozen=True)
class WebhookSenders:
    """What webhooks need: who sends, and what keeps their secrets."""

    webhooks: Webhooks
    sealer: Sealer


@dataclass(frozen=True)
class SavedSearchActions:
    """For one user of a tenant."""

    saved: SavedSearches
    hooks: WebhookSenders | None  # None: this process sends nothing
    clock: Callable[[], datetime]
    tenant_id: UUID
    user_id: UUID

    async def save(self, query: str, name: str = "", *, web: bool = True) -> SavedSearch:
        """Raises Reject for a search that would find everything."""
        wanted = " ".join(clean_text(query).split())
        if len(wanted) > LONGEST_QUERY:
            raise Reject(f"a search that is kept may have at most {LONGEST_QUERY} characters")
        read = parse_query(wanted, now=self.clock())
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
        hooks = self._hooks()
        address = hooks.webhooks.checked(clean_text(url).strip())
        secret = new_secret()
        await self.saved.set_webhook(search, address, hooks.sealer.seal(secret, owner=secret_owner(search.id)))
        return secret

    async def drop_webhook(self, search: SavedSearch) -> None:
        await self.saved.set_webhook(search, None, None)

    async def try_webhook(self, search: SavedSearch) -> int:
        """The status that came back, 2xx. Raises Retry or Reject with the reason."""
        hooks = self._hooks()
        sealed = await self.saved.secret(search)
        if search.webhook_url is None or sealed is None:
            raise Reject("this search has no webhook")
        try:
            secret = hooks.sealer.unseal(sealed, owner=secret_owner(search.id))
        except Fatal as exc:
            raise Reject("the key of this installation is another one: set the webhook anew") from exc
        return await hooks.webhooks.send(search.webhook_url, secret, trial_body(search))

    async def _again(self, search_id: UUID) -> SavedSearch:
        found = await self.saved.get(self.tenant_id, self.user_id, search_id)
        if found is None:
            raise Reject("this search was removed meanwhile")
        return found

    def _hooks(self) -> WebhookSenders:
        if self.hooks is None:
            raise Retry("webhooks are not sent here")
        return self.hooks


def _name(text: str) -> str:
    return " ".join(clean_text(text).split())[:LONGEST_NAME]
