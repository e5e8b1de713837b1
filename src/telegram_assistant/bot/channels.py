"""`/add_channel`, `/my_channels`, and forwarded posts, which add their channel."""

from __future__ import annotations

from dataclasses import replace

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import CallbackQuery, InlineKeyboardButton, Message, MessageOriginChannel
from markupsafe import Markup

from telegram_assistant.bot.buttons import Channel, Channels, Go, Watch, Wish, button, rows
from telegram_assistant.bot.finding import begin_search
from telegram_assistant.bot.talk import Talk
from telegram_assistant.bot.words import href, lines, paragraphs, shortened
from telegram_assistant.domain.access import Right
from telegram_assistant.domain.channel import bare_id, marked_id
from telegram_assistant.domain.results import Sort
from telegram_assistant.services.bot_state import Expected
from telegram_assistant.services.channels import ChannelActions
from telegram_assistant.services.problems import Problem
from telegram_assistant.stores.postgres.watched_channels import Watched

PER_PAGE = 8
MOST_PAGES = 1_000
MOST_WISHES = 10
LONGEST_REFERENCE = 200
LONGEST_TITLE = 40


def routes() -> Router:
    router = Router(name="channels")
    router.message.register(add_channel, Command("add_channel"))
    router.message.register(my_channels, Command("my_channels"))
    router.message.register(forwarded, F.forward_origin)
    router.callback_query.register(add_channel, Go.filter(F.to == "add"))
    router.callback_query.register(my_channels, Go.filter(F.to == "channels"))
    router.callback_query.register(turn_page, Channels.filter())
    router.callback_query.register(take_back, Wish.filter())
    router.callback_query.register(pressed_watch, Watch.filter())
    for name, handler in (
        ("show", show),
        ("visit", visit),
        ("posts", newest_posts),
        ("sure", remove_sure),
        ("remove", remove),
    ):
        router.callback_query.register(handler, Channel.filter(F.do == name))
    return router


def _desk(talk: Talk) -> ChannelActions:
    return ChannelActions(talk.services, talk.caller)


async def add_channel(_: Message | CallbackQuery, talk: Talk, command: CommandObject | None = None) -> None:
    if command and command.args:
        await add(talk, command.args)
    else:
        await talk.ask_for(Expected.CHANNEL)


async def pressed_watch(_: CallbackQuery, callback_data: Watch, talk: Talk) -> None:
    await add(talk, f"@{callback_data.name}")


async def add(talk: Talk, reference: str) -> None:
    """A wish, which capture fulfils."""
    desk, say = _desk(talk), talk.say
    try:
        known = await desk.preview(reference[:LONGEST_REFERENCE])
    except Problem:
        await talk.answer(say("bad_channel"))
        return
    if known.watched is not None:
        await talk.answer(
            say("channel_known", channel=known.watched.title),
            rows([_show_button(known.watched, 0)]),
        )
        return
    if known.request is not None and known.request.last_error:
        await talk.answer(say("channel_trouble", channel=known.reference, error=known.request.last_error))
    try:
        wish = await desk.add(known.reference)
    except Problem:
        await talk.answer(say("too_many_channels"))
        return
    keys = [button(say.plain("take_back"), Wish(id=wish.id)), button(say.plain("button_channels"), Go(to="channels"))]
    await talk.answer(say("channel_asked", channel=known.reference), rows(keys))


async def forwarded(message: Message, talk: Talk) -> None:
    """A public channel is added by its name; of a private one a post is not enough."""
    # An album is forwarded as many messages: one answer will do.
    album = message.media_group_id
    if album and await talk.services.access.allow(f"bot:album:{talk.caller.user_id}:{album}", limit=1, per=60) > 0:
        return
    origin = message.forward_origin
    if not isinstance(origin, MessageOriginChannel):
        await talk.answer(talk.say("not_a_channel"))
        return
    if origin.chat.username:
        await add(talk, f"@{origin.chat.username}")
        return
    known = await _desk(talk).watched.get(talk.caller.tenant_id, bare_id(origin.chat.id))
    title = shortened(origin.chat.title or str(origin.chat.id), 100)
    if known is not None:
        await talk.answer(talk.say("channel_known", channel=known.title), rows([_show_button(known, 0)]))
    else:
        await talk.answer(talk.say("channel_private", channel=title))


async def take_back(_: CallbackQuery, callback_data: Wish, talk: Talk) -> str:
    if not await _desk(talk).drop_request(callback_data.id):
        return talk.say.plain("too_old")
    await talk.show(talk.say("taken_back"))
    return talk.say.plain("taken_back")


async def my_channels(_: Message | CallbackQuery, talk: Talk) -> None:
    await _list(talk, 0)


async def turn_page(_: CallbackQuery, callback_data: Channels, talk: Talk) -> None:
    await _list(talk, callback_data.page)


async def _list(talk: Talk, page: int) -> None:
    desk, say, tenant = _desk(talk), talk.say, talk.caller.tenant_id
    page = max(0, min(page, MOST_PAGES))
    summary = await desk.watched.summary(tenant)
    listed = await desk.watched.page(tenant, limit=PER_PAGE * (page + 1) + 1)
    shown = listed[PER_PAGE * page : PER_PAGE * (page + 1)]
    wishes = await desk.watched.requests(tenant, limit=MOST_WISHES) if page == 0 else []
    title = say("your_channels", n=summary.channels) if summary.channels else say("no_channels")
    waiting = [
        Markup("• {} {}").format(shortened(wish.reference, 60), shortened(wish.last_error or "", 100))
        for wish in wishes
    ]
    back = [button(say.plain("previous"), Channels(page=page - 1))] if page else []
    further = [button(say.plain("next"), Channels(page=page + 1))] if len(listed) > PER_PAGE * (page + 1) else []
    await talk.show(
        paragraphs([title, lines(say("waiting_channels"), *waiting) if waiting else ""]),
        rows(
            *([_show_button(channel, page)] for channel in shown),
            [*back, *further],
            [button(say.plain("button_add"), Go(to="add")), button(say.plain("button_menu"), Go(to="menu"))],
        ),
    )


def _show_button(channel: Watched, page: int) -> InlineKeyboardButton:
    mark = "⚠️ " if channel.failures or channel.status == "dead" else ""
    return button(f"{mark}{shortened(channel.title, LONGEST_TITLE)}", Channel(do="show", id=channel.id, page=page))


async def show(_: CallbackQuery, callback_data: Channel, talk: Talk) -> None:
    await _show(talk, await _desk(talk).get(callback_data.id), callback_data.page)


async def _show(talk: Talk, channel: Watched, page: int) -> None:
    say = talk.say
    address = f"https://t.me/{channel.username}" if channel.username else ""
    card = say(
        "channel_card",
        title=href(address, channel.title) if address else channel.title,
        captured=say("posts", n=channel.captured),
        percent=f"{channel.percent:g}",
    )
    last = say("channel_last", when=say.when(channel.last_post_at)) if channel.last_post_at else ""
    paused = say("channel_paused", when=say.when(channel.paused_at)) if channel.paused_at else ""
    state = paused or (say("channel_new") if channel.requested_from is None else last)
    failing = channel.last_error if channel.failures or channel.status == "dead" else None

    def do(name: str, text: str) -> InlineKeyboardButton:
        return button(say.plain(text), Channel(do=name, id=channel.id, page=page))

    await talk.show(
        lines(card, state, say("channel_failing", error=shortened(failing, 200)) if failing else ""),
        rows(
            [do("posts", "newest_of"), do("visit", "visit")],
            [
                *([do("sure", "remove")] if talk.caller.may(Right.REMOVE) else []),
                button(say.plain("back"), Channels(page=page)),
            ],
        ),
    )


async def visit(_: CallbackQuery, callback_data: Channel, talk: Talk) -> str:
    await _desk(talk).visit(callback_data.id)
    return talk.say.plain("visiting")


async def newest_posts(_: CallbackQuery, callback_data: Channel, talk: Talk) -> None:
    channel = await _desk(talk).get(callback_data.id)
    name = channel.username or str(marked_id(channel.id))
    await begin_search(replace(talk, pressed=None), f"channel:{name}", sort=Sort.NEWEST)


async def remove_sure(_: CallbackQuery, callback_data: Channel, talk: Talk) -> None:
    channel, say = await _desk(talk).get(callback_data.id), talk.say
    keys = [
        button(say.plain("remove_yes"), Channel(do="remove", id=channel.id, page=callback_data.page)),
        button(say.plain("back"), Channel(do="show", id=channel.id, page=callback_data.page)),
    ]
    await talk.show(say("remove_sure", title=channel.title), rows(keys))


async def remove(_: CallbackQuery, callback_data: Channel, talk: Talk) -> str:
    await _desk(talk).remove(callback_data.id)
    await _list(talk, callback_data.page)
    return talk.say.plain("removed")
