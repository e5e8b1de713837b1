"""`/search` with its pages, `/ask` and plain text, `/recommend`, and search in any chat (inline)."""

from __future__ import annotations

import msgspec
from aiogram import F, Router
from aiogram.enums import ChatAction
from aiogram.filters import Command, CommandObject
from aiogram.types import (
    CallbackQuery,
    InlineQuery,
    InlineQueryResultArticle,
    InlineQueryResultUnion,
    InputTextMessageContent,
    Message,
)
from markupsafe import escape

from telegram_assistant.bot.buttons import Go, Keep, Order, Page, Watch, button, rows
from telegram_assistant.bot.messenger import NO_PREVIEW
from telegram_assistant.bot.talk import Talk
from telegram_assistant.bot.words import (
    LONGEST_SNIPPET,
    Say,
    answer_text,
    lines,
    marked,
    paragraphs,
    post_line,
    results_page,
    shortened,
)
from telegram_assistant.domain.query import LONGEST
from telegram_assistant.domain.results import Hit, Results, Sort
from telegram_assistant.services.alerts import SavedSearchActions
from telegram_assistant.services.bot_state import MOST_PAGES, Expected, Turning

PER_PAGE = 5
INLINE_PER_PAGE = 20
INLINE_CACHE = 10  # seconds
QUESTIONS_PER_MINUTE = 10
MOST_ADVICE = 5


def routes() -> Router:
    router = Router(name="finding")
    router.message.register(search, Command("search"))
    router.message.register(ask, Command("ask"))
    router.message.register(recommend, Command("recommend"))
    router.callback_query.register(search, Go.filter(F.to == "search"))
    router.callback_query.register(ask, Go.filter(F.to == "ask"))
    router.callback_query.register(recommend, Go.filter(F.to == "recommend"))
    router.callback_query.register(turn_page, Page.filter())
    router.callback_query.register(turn_order, Order.filter())
    router.callback_query.register(keep, Keep.filter())
    router.inline_query.register(inline)
    return router


async def search(_: Message | CallbackQuery, talk: Talk, command: CommandObject | None = None) -> None:
    if command and command.args:
        await begin_search(talk, command.args)
    else:
        await talk.ask_for(Expected.QUERY)


async def ask(_: Message | CallbackQuery, talk: Talk, command: CommandObject | None = None) -> None:
    if command and command.args:
        await answer_question(talk, command.args)
    else:
        await talk.ask_for(Expected.QUESTION)


async def answer_question(talk: Talk, question: str) -> None:
    """From the posts of the tenant, each sentence with its sources."""
    wait = await talk.services.access.allow(f"bot:ask:{talk.caller.user_id}", limit=QUESTIONS_PER_MINUTE, per=60)
    if wait > 0:
        await talk.answer(talk.say("slow_down", n=max(1, round(wait))))
        return
    messenger = talk.desk.messenger
    await messenger.ask(lambda: messenger.bot.send_chat_action(talk.chat_id, ChatAction.TYPING))
    answered = await talk.services.asking.ask(talk.caller.tenant_id, question[:LONGEST])
    token = await talk.desk.memory.keep_search(talk.caller.user_id, Turning(question[:LONGEST]))
    more = button(talk.say.plain("button_search"), Page(token=token, page=0))
    await talk.answer(answer_text(answered, talk.say), rows([more]))


async def begin_search(talk: Talk, query: str, *, sort: Sort = Sort.BEST) -> None:
    await _show_page(talk, Turning(query[:LONGEST], sort), None, 0)


async def turn_page(_: CallbackQuery, callback_data: Page, talk: Talk) -> str | None:
    kept = await talk.desk.memory.kept_search(talk.caller.user_id, callback_data.token)
    if kept is None or not 0 <= callback_data.page <= len(kept.cursors):
        return talk.say.plain("too_old")
    await _show_page(talk, kept, callback_data.token, callback_data.page)
    return None


async def turn_order(_: CallbackQuery, callback_data: Order, talk: Talk) -> str | None:
    kept = await talk.desk.memory.kept_search(talk.caller.user_id, callback_data.token)
    if kept is None:
        return talk.say.plain("too_old")
    other = Sort.BEST if kept.sort is Sort.NEWEST else Sort.NEWEST
    await _show_page(talk, Turning(kept.query, other), callback_data.token, 0)
    return None


async def keep(_: CallbackQuery, callback_data: Keep, talk: Talk) -> str:
    kept = await talk.desk.memory.kept_search(talk.caller.user_id, callback_data.token)
    if kept is None:
        return talk.say.plain("too_old")
    await SavedSearchActions(talk.services, talk.caller).save(kept.query)
    return talk.say.plain("search_saved")


async def _show_page(talk: Talk, turning: Turning, token: str | None, page: int) -> None:
    turning, results = await _page(talk, turning, page, PER_PAGE)
    token = await talk.desk.memory.keep_search(talk.caller.user_id, turning, token)
    say = talk.say
    back = [button(say.plain("previous"), Page(token=token, page=page - 1))] if page else []
    further = [button(say.plain("next"), Page(token=token, page=page + 1))] if len(turning.cursors) > page else []
    order = "by_newest" if turning.sort is Sort.BEST else "by_best"
    others = [button(say.plain(order), Order(token=token)), button(say.plain("save_search"), Keep(token=token))]
    html = results_page(turning.query, results, say, page=page, per_page=PER_PAGE)
    await talk.show(html, rows([*back, *further], others if results.hits and turning.query.strip() else []))


async def _page(talk: Talk, turning: Turning, page: int, per_page: int) -> tuple[Turning, Results]:
    """The page, and the search with the cursor of the next one."""
    results = await talk.services.search.search(
        talk.caller.tenant_id,
        turning.query,
        limit=per_page,
        cursor=turning.cursors[page - 1] if page else None,
        sort=turning.sort,
    )
    cursors = turning.cursors[:page]
    if results.cursor and page < MOST_PAGES:
        cursors = (*cursors, results.cursor)
    return msgspec.structs.replace(turning, cursors=cursors), results


async def inline(query: InlineQuery, talk: Talk) -> None:
    """In any chat: the reader's own posts, to be put there by the reader."""
    token, _, number = query.offset.partition(":")
    kept = await talk.desk.memory.kept_search(talk.caller.user_id, token) if token else None
    page = int(number) if number.isdecimal() else 0
    if token and (kept is None or not 0 < page <= len(kept.cursors)):
        found, following = Results(), ""
    else:
        turning, found = await _page(talk, kept or Turning(query.query[:LONGEST]), page, INLINE_PER_PAGE)
        kept_as = (
            await talk.desk.memory.keep_search(talk.caller.user_id, turning, token or None) if found.cursor else ""
        )
        following = f"{kept_as}:{page + 1}" if len(turning.cursors) > page else ""
    articles: list[InlineQueryResultUnion] = [_article(hit, talk.say) for hit in found.hits]
    messenger = talk.desk.messenger
    await messenger.ask(
        lambda: messenger.bot.answer_inline_query(
            query.id, articles, cache_time=INLINE_CACHE, is_personal=True, next_offset=following
        )
    )


def _article(hit: Hit, say: Say) -> InlineQueryResultArticle:
    text = shortened(hit.snippet.text, LONGEST_SNIPPET) or say.plain("wordless")
    body = lines(post_line(hit.post, say), marked(hit.snippet) or say("wordless"))
    return InlineQueryResultArticle(
        id=hit.post.post_id.hex,
        title=shortened(hit.post.channel_title, 100) or "…",
        description=text,
        url=hit.post.url,
        input_message_content=InputTextMessageContent(message_text=body, link_preview_options=NO_PREVIEW),
    )


async def recommend(_: Message | CallbackQuery, talk: Talk) -> None:
    """Posts to read, and channels that those of the reader forward from, to be watched at a press."""
    say, caller = talk.say, talk.caller
    found = await talk.desk.advisor.recommend(caller.tenant_id, caller.user_id, limit=MOST_ADVICE)
    if not found.posts and not found.origins:
        await talk.show(say("no_recommendations"))
        return
    posts = [
        lines(post_line(one.post, say), escape(shortened(one.post.text, LONGEST_SNIPPET) or say.plain("wordless")))
        for one in found.posts
    ]
    channels = [
        [button(f"{say.plain('watch')} {shortened(one.title, 40)}", Watch(name=one.username))] for one in found.origins
    ]
    await talk.show(paragraphs([say("recommended"), *posts]), rows(*channels))
