"""The `bot` role: inside `tga up` when there is a token, or alone as `tga bot`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiogram import Bot
from aiogram.exceptions import TelegramAPIError
from aiogram.types import BotCommand
from pydantic import SecretStr

from telegram_assistant.bot.alerts import BotAlerts, Delivery
from telegram_assistant.bot.dialogue import Dialogue
from telegram_assistant.bot.entry import COMMANDS
from telegram_assistant.bot.messenger import Messenger, open_bot
from telegram_assistant.bot.talk import BotContext
from telegram_assistant.bot.updates import ALLOWED, LOCK_TTL, Fetching, UpdateWorker, introduce
from telegram_assistant.bot.words import Say
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.config import Settings
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.i18n import LANGUAGES
from telegram_assistant.ingest.lock import Lock
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.services.bot_link import Codes, webhook_secret
from telegram_assistant.services.bot_state import Inbox, Memory, holder_key, username_key
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.telegram_users import TelegramAlerts, TelegramUsers
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.wiring.runtime import Runtime

WEBHOOK_PATH = "/bot/webhook"
PATIENCE = 120.0


@dataclass(frozen=True)
class BotRole:
    """A bot that runs, and how others send through it."""

    bot: Bot
    delivery: Delivery
    inbox: Inbox
    working: UpdateWorker


def _open(settings: Settings, token: SecretStr) -> Bot:
    return open_bot(token.get_secret_value(), settings.telegram_bot_api_url, proxy=settings.telegram_web_proxy)


def open_delivery(services: Services) -> Delivery | None:
    """To send alerts and digests from any role; None without a token. The caller closes it."""
    token = services.settings.telegram_bot_token
    if token is None:
        return None
    bot = _open(services.settings, token)
    return _delivery(bot, services)


async def start_bot(runtime: Runtime, services: Services) -> BotRole:
    """Three tasks: `bot` answers, `bot_updates` gets what people write, `bot_alerts` tells what happened."""
    settings = runtime.settings
    if settings.telegram_bot_token is None:
        raise Fatal("TELEGRAM_BOT_TOKEN is not set: @BotFather gives you a bot and its token")
    if settings.bot_mode == "webhook" and not settings.api_public_url:
        raise Fatal("BOT_MODE=webhook needs API_PUBLIC_URL, where Telegram reaches the API over https")
    bot = _open(settings, settings.telegram_bot_token)
    runtime.stack.push_async_callback(bot.session.close)
    delivery = _delivery(bot, services)
    inbox = Inbox(services.redis, bot.id)
    lock = Lock(
        services.redis,
        holder_key(bot.id),
        settings.hostname,
        ttl=LOCK_TTL,
        monotonic=asyncio.get_running_loop().time,
    )
    working = UpdateWorker(inbox, lock, Dialogue(_desk(services, delivery)).answer)
    alerts = BotAlerts(
        TelegramAlerts(services.database),
        VisiblePosts(services.database),
        delivery,
        services.access,
        services.redis,
        bot.id,
        working.turn,
    )
    fetching = Fetching(bot, inbox, working.turn)
    await runtime.start_task("bot", working.run, patience=PATIENCE)
    await runtime.start_task("bot_updates", _Ear(bot, settings, services, fetching, working.turn).run)
    await runtime.start_task("bot_alerts", alerts.run)
    return BotRole(bot, delivery, inbox, working)


def _desk(services: Services, delivery: Delivery) -> BotContext:
    advisor = Advisor(services.database, services.clock)
    return BotContext(
        services=services,
        messenger=delivery.messenger,
        memory=Memory(services.redis),
        codes=Codes(services.redis, services.clock),
        accounts=TelegramUsers(services.database),
        delivery=delivery,
        advisor=advisor,
    )


def _delivery(bot: Bot, services: Services) -> Delivery:
    return Delivery(Messenger(bot), Memory(services.redis), TelegramUsers(services.database))


@dataclass(frozen=True)
class _Ear:
    """The job that gets the updates."""

    bot: Bot
    settings: Settings
    services: Services
    fetching: Fetching
    turn: asyncio.Event

    async def run(self, task: Task) -> None:
        """A token that is wrong from the start is for a person to mend. What happens later must not stop the others."""
        try:
            await _introduce(self.bot, self.services)
        except Fatal as exc:
            if not task.started.is_set():
                raise
            raise Retry(str(exc)) from exc
        except Retry:
            task.ready()  # the network is away: no reason not to start
            raise
        task.ready()
        await self.turn.wait()
        if self.settings.bot_mode == "webhook":
            await _set_webhook(self.bot, self.settings)
            await asyncio.Event().wait()
        else:
            await self.bot.delete_webhook(drop_pending_updates=False)
            await self.fetching.run(task)


async def _introduce(bot: Bot, services: Services) -> None:
    username = await introduce(bot)
    await services.redis.set(username_key(bot.id), username)
    try:
        for language in LANGUAGES:
            say = Say(language)
            commands = [BotCommand(command=name, description=say.plain(f"cmd_{name}")) for name in COMMANDS]
            await bot.set_my_commands(commands, language_code="ru" if language == "ru" else None)
    except TelegramAPIError as exc:
        raise Retry(f"Telegram does not take the list of commands: {exc}") from exc


async def _set_webhook(bot: Bot, settings: Settings) -> None:
    assert settings.telegram_bot_token is not None  # noqa: S101 - start_bot has seen it
    chosen = settings.bot_webhook_secret.get_secret_value() if settings.bot_webhook_secret else None
    await bot.set_webhook(
        f"{(settings.api_public_url or '').rstrip('/')}{WEBHOOK_PATH}",
        secret_token=webhook_secret(settings.telegram_bot_token.get_secret_value(), chosen),
        allowed_updates=ALLOWED,
        drop_pending_updates=False,
    )
