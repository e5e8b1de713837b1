"""Everything the bot understands: who may speak and how often, then the commands in the order in which they are tried.

Linked people get in, strangers learn how to link. A text that is no command is a question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from aiogram import BaseMiddleware, Bot, Dispatcher, F, Router
from aiogram.enums import ChatMemberStatus, ChatType
from aiogram.types import CallbackQuery, InlineQueryResultsButton, Message, TelegramObject, Update, User
from pydantic import ValidationError

from telegram_assistant.ai.spend import BudgetSpent
from telegram_assistant.bot import channels, entry, finding, reports
from telegram_assistant.bot.messenger import Gone
from telegram_assistant.bot.talk import BotContext, Talk, welcome
from telegram_assistant.bot.words import Say
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Reject, Retry, Skip
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_link import code_in
from telegram_assistant.services.bot_state import Expected, language_of
from telegram_assistant.services.problems import Problem

PER_MINUTE = 30  # messages and buttons of one person
INLINE_PER_MINUTE = 90  # every letter typed is a query
STRANGER_PER_HOUR = 3  # answers to one who is not linked

log = get_logger(__name__)
Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]


class Dialogue:
    """Answers updates."""

    def __init__(self, desk: BotContext) -> None:
        self._bot: Bot = desk.messenger.bot
        self._dispatcher = Dispatcher(disable_fsm=True)
        self._dispatcher.update.outer_middleware(AccessMiddleware(desk))
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


CODES_PER_WINDOW, CODES_WINDOW = 5, 600.0


@dataclass(frozen=True)
class AccessMiddleware(BaseMiddleware):
    """Around everything that the bot does."""

    desk: BotContext

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        user: User | None = data.get("event_from_user")
        if not isinstance(event, Update) or user is None or user.is_bot or not _is_private(event):
            return None
        caller = await self.desk.accounts.caller(user.id)
        if event.my_chat_member is not None:
            if caller is not None:
                left = event.my_chat_member.new_chat_member.status == ChatMemberStatus.KICKED
                await self.desk.memory.blocks(caller.user_id, blocked=left)
            return None
        try:
            await self._let_in(handler, event, data, user, caller)
        except Gone:
            if caller is not None:
                await self.desk.memory.blocks(caller.user_id, blocked=True)
        return None

    async def _let_in(
        self, handler: Handler, event: Update, data: dict[str, Any], user: User, caller: Caller | None
    ) -> None:
        code = _code(event, known=caller is not None)
        if code is not None:
            await self._link(code, user, caller)
            return
        if caller is None:
            await self._stranger(event, user)
            return
        language = await self.desk.memory.speaks(caller.user_id, user.language_code)
        pressed = event.callback_query.message if event.callback_query else None
        talk = Talk(
            desk=self.desk,
            caller=caller,
            chat_id=user.id,
            say=Say(language),
            pressed=pressed.message_id if pressed else None,
        )
        wait = await self._wait(event, caller)
        if wait > 0:
            await self._slow_down(event, talk, wait)
            return
        await self._answer(handler, event, data, talk)

    async def _answer(self, handler: Handler, event: Update, data: dict[str, Any], talk: Talk) -> None:
        """Run the handler; what it returns is told in a small window over a pressed button, and errors are too."""
        toast, trouble = None, ""
        try:
            toast = await handler(event, {**data, "talk": talk})
        except BudgetSpent as exc:
            trouble = talk.say("budget_spent", until=f"{exc.until:%H:%M}")
        except Retry as exc:
            log.warning("bot_retry", reason=str(exc))
            trouble = talk.say("later")
        except (Problem, Reject, Skip) as exc:
            trouble = talk.say("wrong", detail=str(exc))
        except Gone:
            raise
        except Exception:
            log.exception("bot_answer_failed", update=event.update_id)
            trouble = talk.say("failed")
        if event.callback_query is not None:
            await self._toast(event.callback_query.id, toast if isinstance(toast, str) else "")
        if trouble and event.inline_query is None:
            await talk.answer(trouble)

    async def _wait(self, event: Update, caller: Caller) -> float:
        inline = event.inline_query is not None
        kind, limit = ("inline", INLINE_PER_MINUTE) if inline else ("messages", PER_MINUTE)
        return await self.desk.services.access.allow(f"bot:{kind}:{caller.user_id}", limit=limit, per=60)

    async def _slow_down(self, event: Update, talk: Talk, wait: float) -> None:
        """Told once a minute: answering everything would be the flood itself."""
        if event.inline_query is not None:
            await self._no_inline(event.inline_query.id)
            return
        if await self.desk.services.access.allow(f"bot:told:{talk.caller.user_id}", limit=1, per=60) == 0:
            await talk.answer(talk.say("slow_down", n=ceil(wait)))

    async def _stranger(self, event: Update, user: User) -> None:
        say = Say(language_of(user.language_code))
        allow = self.desk.services.access.allow
        if await allow(f"bot:stranger:{user.id}", limit=STRANGER_PER_HOUR, per=3600) > 0:
            return
        if event.message is not None:
            await self.desk.messenger.send(user.id, say("stranger"))
        elif event.callback_query is not None:
            await self._toast(event.callback_query.id, say.plain("stranger_button"))
        elif event.inline_query is not None:
            there = InlineQueryResultsButton(text=say.plain("stranger_button"), start_parameter="login")
            await self._no_inline(event.inline_query.id, there)

    async def _link(self, code: str, user: User, before: Caller | None) -> None:
        say = Say(language_of(user.language_code))
        services, send = self.desk.services, self.desk.messenger.send
        if await services.access.allow(f"bot:codes:{user.id}", limit=CODES_PER_WINDOW, per=CODES_WINDOW) > 0:
            await send(user.id, say("too_many_codes"))
            return
        owner = await self.desk.codes.redeem(code)
        if owner is None or not await self.desk.accounts.link(*owner, user.id):
            await send(user.id, say("bad_code"))
            return
        caller = await self.desk.accounts.caller(user.id)
        if caller is None:
            await send(user.id, say("bad_code"))  # disabled this moment
            return
        if before is not None and before.user_id != caller.user_id:
            await self.desk.memory.forget(before.user_id)
        await services.access.record(caller, "telegram_linked", details={"telegram_user_id": user.id})
        language = await self.desk.memory.speaks(caller.user_id, user.language_code)
        say = Say(language)
        await welcome(Talk(self.desk, caller, user.id, say), say("linked", name=caller.name))

    async def _toast(self, query_id: str, text: str) -> None:
        messenger = self.desk.messenger
        await messenger.ask(lambda: messenger.bot.answer_callback_query(query_id, text=text[:200] or None))

    async def _no_inline(self, query_id: str, there: InlineQueryResultsButton | None = None) -> None:
        messenger = self.desk.messenger
        await messenger.ask(
            lambda: messenger.bot.answer_inline_query(query_id, [], cache_time=1, is_personal=True, button=there)
        )


def _is_private(update: Update) -> bool:
    """Inline queries are asked anywhere, and only their sender sees them."""
    if update.message is not None:
        return update.message.chat.type == ChatType.PRIVATE
    if update.callback_query is not None:
        message = update.callback_query.message
        return message is not None and message.chat.type == ChatType.PRIVATE
    if update.my_chat_member is not None:
        return update.my_chat_member.chat.type == ChatType.PRIVATE
    return update.inline_query is not None


def _code(update: Update, *, known: bool) -> str | None:
    """After /start or /login; from a stranger also alone."""
    text = (update.message.text or "") if update.message else ""
    command, _, rest = text.partition(" ")
    if command.partition("@")[0] in ("/start", "/login"):
        return code_in(rest)
    return None if known else code_in(text)
