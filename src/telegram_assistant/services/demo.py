"""The demo's channels: they are put away with one click, and do not come back by themselves."""

from __future__ import annotations

import msgspec

from telegram_assistant.domain.access import Caller
from telegram_assistant.services.problems import conflict, forbidden
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.stores.postgres.watched_channels import Requests, WatchedChannels

DEMO = "demo"  # its row in `upkeep`


class DemoChannels(msgspec.Struct):
    """Which channels the demo has asked for already."""

    asked: list[str] = []  # msgspec copies it


class DemoActions:
    """For the operator, whose tenant the demo's channels belong to."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._watched = WatchedChannels(services.database)

    async def count(self) -> int:
        """How many of its channels are shown; 0 where there is no demo."""
        return len(await self._watched.made_up(self._caller.tenant_id)) if self._services.health.demo else 0

    async def put_away(self) -> int:
        """What real channels said stays; so does all that people made."""
        if not self._caller.is_operator:
            raise forbidden("Only an admin of the first tenant may put the demo's channels away")
        if not self._services.health.demo:
            raise conflict("This is no demo: remove channels on their page")
        tenant, requests = self._caller.tenant_id, Requests(self._services.database)
        for reference in (await Upkeep(self._services.database).state(DEMO, DemoChannels)).asked:
            found = await requests.get(tenant, reference)
            if found is not None and found.channel_id is None:
                await requests.drop(tenant, reference)
        channels = await self._watched.made_up(tenant)
        for channel_id in channels:
            await self._watched.unwatch(tenant, channel_id)
        await self._services.access.record(self._caller, "demo_put_away", f"{len(channels)} channels")
        return len(channels)
