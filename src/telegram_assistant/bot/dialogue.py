"""Everything the bot understands, in the order in which it is tried; what is nothing else is a question."""

from __future__ import annotations

from typing import Any

from aiogram import Bot, Dispatcher, F, Router
from aiogram.types import CallbackQuery, Message, Update
from pydantic import ValidationError

from telegram_assistant.bot import channels, entry, finding, reports
from telegram_assistant.bot.door import Door
from telegram_assistant.bot.talk import Desk, Talk
from telegram_assistant.domain.text import clean_text
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_state import Expected

log = get_logger(__name__)


class Dialogue:
    """Answers updates."""

    def __init__(self, desk: Desk) -> None:
        self._bot: Bot = desk.messenger.bot
        self._dispatcher = Dispatcher(disable_fsm=True)
        self._dispatcher.update.outer_middleware(Door(desk))
        for routes in (entry.routes, finding.routes, reports.routes, channels.routes, _rest):
            self._dispatcher.include_router(routes())

    async def answer(self, update: dict[str, Any]) -> None:
        try:
            read = Update.model_validate(cleaned(update), context={"bot": self._bot})
        except ValidationError as exc:
            log.warning("bot_update_unreadable", update=update.get("update_id"), error=str(exc)[:500])
            return
        await self._dispatcher.feed_update(self._bot, read)


def cleaned(value: Any) -> Any:
    """Without what no store of ours takes: NULs and halves of characters."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {key: cleaned(inner) for key, inner in value.items()}
    return [cleaned(inner) for inner in value] if isinstance(value, list) else value


def _rest() -> Router:
    router = Router(name="rest")
    router.message.register(unknown_command, F.text.startswith("/"))
    router.message.register(plain_text, F.text)
    router.message.register(no_text)
    router.callback_query.register(unknown_button)
    return router


async def unknown_command(_: Message, talk: Talk) -> None:
    await talk.answer(talk.say("unknown_command"))


async def plain_text(message: Message, talk: Talk) -> None:
    """What we asked for, or a question."""
    text = (message.text or "").strip()
    match await talk.desk.memory.expected(talk.caller.user_id):
        case Expected.QUERY:
            await finding.begin_search(talk, text)
        case Expected.CHANNEL:
            await channels.add(talk, text)
        case Expected.FEEDBACK:
            await entry.take_feedback(talk, text)
        case _:
            await finding.answer_question(talk, text)


async def no_text(_: Message, talk: Talk) -> None:
    await talk.answer(talk.say("only_text"))


async def unknown_button(_: CallbackQuery, talk: Talk) -> str:
    return talk.say.plain("too_old")
