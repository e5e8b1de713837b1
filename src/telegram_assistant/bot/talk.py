"""What a handler gets: who speaks, in which language, and everything that answers are made from."""

from __future__ import annotations

from dataclasses import dataclass

from aiogram.types import InlineKeyboardMarkup
from markupsafe import Markup

from telegram_assistant.bot.alerts import Delivery
from telegram_assistant.bot.buttons import Go, button, rows
from telegram_assistant.bot.messenger import Messenger
from telegram_assistant.bot.words import Say
from telegram_assistant.domain.access import Caller
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.services.bot_link import Codes
from telegram_assistant.services.bot_state import Expected, Memory
from telegram_assistant.services.digests import DigestActions
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.telegram_users import TelegramUsers

MENU = (("search", "ask"), ("digest", "trends"), ("channels", "add"), ("recommend", "subscription"))


@dataclass(frozen=True)
class BotContext:
    """What the handlers of the bot share; one for a process."""

    services: Services
    messenger: Messenger
    memory: Memory
    codes: Codes
    accounts: TelegramUsers
    delivery: Delivery
    advisor: Advisor


@dataclass(frozen=True)
class Talk:
    """With one person, in their private chat with the bot; `pressed` is the message whose button it was."""

    desk: BotContext
    caller: Caller
    chat_id: int
    say: Say
    pressed: int | None = None

    @property
    def services(self) -> Services:
        return self.desk.services

    @property
    def digests(self) -> DigestActions:
        return DigestActions(self.services, self.caller)

    async def answer(self, html: str, keyboard: InlineKeyboardMarkup | None = None) -> None:
        await self.desk.messenger.send(self.chat_id, html, keyboard)

    async def show(self, html: str, keyboard: InlineKeyboardMarkup | None = None) -> None:
        """In place of the message whose button was pressed."""
        if self.pressed is None:
            await self.answer(html, keyboard)
        else:
            await self.desk.messenger.edit(self.chat_id, self.pressed, html, keyboard)

    async def ask_for(self, what: Expected) -> None:
        """The next message will be the answer."""
        await self.desk.memory.expect(self.caller.user_id, what)
        await self.answer(self.say(f"give_{what}"))


async def welcome(talk: Talk, text: Markup) -> None:
    """Say something, with the menu under it."""
    say = talk.say
    keys = [[button(say.plain(f"button_{name}"), Go(to=name)) for name in row] for row in MENU]
    await talk.show(text, rows(*keys, [button(say.plain("button_language"), Go(to="language"))]))
