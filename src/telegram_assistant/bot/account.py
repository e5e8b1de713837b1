"""Somebody's link with the bot, as the account page and the API show and change it."""

from __future__ import annotations

from dataclasses import dataclass

from telegram_assistant.api.problems import conflict, forbidden
from telegram_assistant.api.services import Services
from telegram_assistant.bot.linking import Code, Codes
from telegram_assistant.bot.memory import Memory
from telegram_assistant.bot.token import bot_id_of
from telegram_assistant.domain.access import Caller
from telegram_assistant.stores.postgres.telegram_users import TelegramUsers

NO_BOT = "There is no bot here: an admin sets TELEGRAM_BOT_TOKEN"


@dataclass(frozen=True, slots=True)
class LinkState:
    """How somebody stands with the bot."""

    configured: bool
    username: str | None  # of the bot, once it ran
    linked: bool
    blocked: bool  # by its user: it cannot write


class BotAccount:
    """For one caller."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._users = TelegramUsers(services.database)
        self._memory = Memory(services.redis)

    async def state(self) -> LinkState:
        token = self._services.settings.telegram_bot_token
        linked = await self._users.of_user(self._caller.tenant_id, self._caller.user_id) is not None
        return LinkState(
            configured=token is not None,
            username=await self._memory.bot_username(bot_id_of(token.get_secret_value())) if token else None,
            linked=linked,
            blocked=linked and await self._memory.has_blocked(self._caller.user_id),
        )

    async def code(self) -> Code:
        """Raises a problem without a bot, and for a key that may do less than its owner: the bot may do all."""
        if self._services.settings.telegram_bot_token is None:
            raise conflict(NO_BOT)
        user = await self._services.access.people.user(self._caller, self._caller.user_id)
        if user is None or user.role is not self._caller.role:
            raise forbidden("This key may do less than you: use one with all your rights, or your account page")
        code = await Codes(self._services.redis, self._services.clock).make(self._caller)
        await self._services.access.record(self._caller, "telegram_code_made")
        return code

    async def unlink(self) -> None:
        if await self._users.unlink(self._caller.tenant_id, self._caller.user_id):
            await self._memory.forget(self._caller.user_id)
            await self._services.access.record(self._caller, "telegram_unlinked")
