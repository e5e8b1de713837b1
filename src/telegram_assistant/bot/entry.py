"""`/start /help /menu /login /subscription /feedback`, and the language."""

from __future__ import annotations

from dataclasses import replace

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import CallbackQuery, Message
from markupsafe import Markup

from telegram_assistant.bot.alerts import Outcome
from telegram_assistant.bot.buttons import Go, button, rows
from telegram_assistant.bot.talk import Talk, welcome
from telegram_assistant.bot.words import Say, lines, shortened
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Retry
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_state import Expected
from telegram_assistant.stores.postgres.saved_searches import SavedSearches
from telegram_assistant.stores.postgres.watched_channels import WatchedChannels

COMMANDS = (  # SPEC 8: the names are fixed
    "start",
    "help",
    "menu",
    "login",
    "add_channel",
    "my_channels",
    "ask",
    "search",
    "recommend",
    "digest",
    "trends",
    "subscription",
    "feedback",
    "admin",
)
LONGEST_FEEDBACK = 3_000
FEEDBACK_PER_HOUR = 10

log = get_logger(__name__)


def routes() -> Router:
    router = Router(name="entry")
    router.message.register(start, Command("start"))
    router.message.register(show_help, Command("help"))
    router.message.register(menu, Command("menu"))
    router.message.register(login, Command("login"))
    router.message.register(subscription, Command("subscription"))
    router.message.register(feedback, Command("feedback"))
    router.callback_query.register(menu, Go.filter(F.to == "menu"))
    router.callback_query.register(pressed_language, Go.filter(F.to == "language"))
    router.callback_query.register(subscription, Go.filter(F.to == "subscription"))
    router.callback_query.register(unlink_sure, Go.filter(F.to == "unlink"))
    router.callback_query.register(unlink, Go.filter(F.to == "unlink_yes"))
    return router


async def start(_: Message, talk: Talk) -> None:
    await welcome(talk, talk.say("hello", name=talk.caller.name))


async def show_help(_: Message, talk: Talk) -> None:
    shown = [name for name in COMMANDS if name != "admin" or talk.caller.is_admin]
    listed = lines(*(Markup("/{}: {}").format(name, talk.say(f"cmd_{name}")) for name in shown))
    bot = await talk.desk.memory.bot_username(talk.desk.messenger.bot.id)
    await talk.answer(talk.say("help", bot=bot or "…", commands=listed))


async def menu(_: Message | CallbackQuery, talk: Talk) -> None:
    await welcome(talk, talk.say("menu"))


async def login(_: Message, command: CommandObject, talk: Talk) -> None:
    """With a code the door has done it before."""
    if command.args:
        await talk.answer(talk.say("bad_code"))
    else:
        await talk.answer(talk.say("login_how", name=talk.caller.name))


async def pressed_language(_: CallbackQuery, talk: Talk) -> str:
    other = "en" if talk.say.language == "ru" else "ru"
    await talk.desk.memory.choose(talk.caller.user_id, other)
    say = Say(other)
    await welcome(replace(talk, say=say), say("menu"))
    return say.plain("language_chosen")


async def subscription(_: Message | CallbackQuery, talk: Talk) -> None:
    caller, say = talk.caller, talk.say
    saved = await SavedSearches(talk.services.database).of_user(caller.tenant_id, caller.user_id)
    summary = await WatchedChannels(talk.services.database).summary(caller.tenant_id)
    text = say(
        "account",
        name=caller.name,
        role=say.plain(f"role_{caller.role}"),
        tenant=caller.tenant,
        channels=summary.channels,
        searches=len(saved),
        unread=sum(one.unread for one in saved),
        digests=len(await talk.digests.all()),
    )
    await talk.show(
        text,
        rows(
            [
                button(say.plain("button_digest"), Go(to="digest")),
                button(say.plain("button_channels"), Go(to="channels")),
            ],
            [button(say.plain("unlink"), Go(to="unlink"))],
            [button(say.plain("button_menu"), Go(to="menu"))],
        ),
    )


async def unlink_sure(_: CallbackQuery, talk: Talk) -> None:
    say = talk.say
    keys = [button(say.plain("unlink_yes"), Go(to="unlink_yes")), button(say.plain("back"), Go(to="subscription"))]
    await talk.show(say("unlink_sure", name=talk.caller.name), rows(keys))


async def unlink(_: CallbackQuery, talk: Talk) -> None:
    caller = talk.caller
    await talk.desk.accounts.unlink(caller.tenant_id, caller.user_id)
    await talk.desk.memory.forget(caller.user_id)
    await talk.services.access.record(caller, "telegram_unlinked")
    await talk.show(talk.say("unlinked"))


async def feedback(_: Message, command: CommandObject, talk: Talk) -> None:
    if command.args:
        await take_feedback(talk, command.args)
    else:
        await talk.ask_for(Expected.FEEDBACK)


async def take_feedback(talk: Talk, text: str) -> None:
    """Into the log of what was done, where admins read it on the page, and to those of them who are linked."""
    caller = talk.caller
    wait = await talk.services.access.allow(f"bot:feedback:{caller.user_id}", limit=FEEDBACK_PER_HOUR, per=3600)
    if wait > 0:
        await talk.answer(talk.say("slow_down", n=round(wait)))
        return
    said = clean_text(text)[:LONGEST_FEEDBACK]
    await talk.services.access.record(caller, "feedback", details={"text": said})
    await talk.answer(talk.say("thanks"))
    for admin in await talk.desk.accounts.admins(caller.tenant_id):
        if admin == caller.user_id:
            continue
        say = Say(await talk.desk.memory.language(admin))
        html = say("feedback_from", name=caller.name, text=shortened(said, 1_000))
        try:
            outcome = await talk.desk.delivery.send(caller.tenant_id, admin, html)
        except Retry as exc:
            log.warning("bot_feedback_not_sent", admin=str(admin), reason=str(exc))  # it stands in the log all the same
        else:
            log.info("bot_feedback_sent", admin=str(admin), outcome=str(Outcome(outcome)))
