"""`/digest`, `/trends`, `/admin`, and the button that mutes a saved search."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import ceil
from uuid import UUID
from zoneinfo import ZoneInfo

from aiogram import F, Router
from aiogram.filters import Command
from aiogram.types import CallbackQuery, InlineKeyboardButton, Message
from markupsafe import Markup

from telegram_assistant.bot.buttons import Digest as DigestButton
from telegram_assistant.bot.buttons import Go, Mute, button, rows
from telegram_assistant.bot.talk import Talk
from telegram_assistant.bot.words import href, issue_text, lines, paragraphs, shortened
from telegram_assistant.domain.digests import Digest, Language, Way, Wish
from telegram_assistant.domain.trends import Kind
from telegram_assistant.jobs.digests import ShownIssue
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.stores.postgres.saved_searches import SavedSearches
from telegram_assistant.stores.postgres.trends import FoundTrend, Trends
from telegram_assistant.stores.postgres.users import Users
from telegram_assistant.stores.postgres.watched_channels import WatchedChannels

MOST_TRENDS = 10
TREND_DAYS = timedelta(days=2)
PREVIEWS_PER_HOUR = 20
MOST_TROUBLES = 15
MOST_BACK = 100  # issues
MOST_PEOPLE = 1_000


def routes() -> Router:
    router = Router(name="reports")
    router.message.register(digest, Command("digest"))
    router.message.register(trends, Command("trends"))
    router.message.register(admin, Command("admin"))
    router.callback_query.register(digest, Go.filter(F.to == "digest"))
    router.callback_query.register(begin_digest, Go.filter(F.to == "digest_begin"))
    router.callback_query.register(trends, Go.filter(F.to == "trends"))
    router.callback_query.register(admin, Go.filter(F.to == "admin"))
    router.callback_query.register(show_issue, DigestButton.filter(F.do == "show"))
    router.callback_query.register(preview, DigestButton.filter(F.do == "now"))
    router.callback_query.register(switch_digest, DigestButton.filter(F.do.in_({"on", "off"})))
    router.callback_query.register(mute, Mute.filter())
    return router


async def digest(_: Message | CallbackQuery, talk: Talk) -> None:
    say, found = talk.say, await talk.digests.all()
    if not found:
        await talk.show(say("no_digest"), rows([button(say.plain("digest_begin"), Go(to="digest_begin"))]))
    elif len(found) == 1:
        await _issue(talk, found[0], 0)
    else:
        named = [[button(shortened(one.wish.name, 40), DigestButton(do="show", id=one.id))] for one in found]
        await talk.show(say("digest_choose"), rows(*named))


async def begin_digest(pressed: CallbackQuery, talk: Talk) -> None:
    """The default of SPEC 8: every day at 12:00 in Moscow, ten stories."""
    say = talk.say
    if await talk.digests.all():
        await digest(pressed, talk)  # the button was pressed twice
        return
    wish = Wish(name=say.plain("digest_name"), language=Language(say.language), ways=(Way.WEB, Way.BOT))
    made = await talk.digests.add(wish)
    due = made.next_at or talk.services.clock()
    await talk.show(say("digest_begun", when=say.when(due, ZoneInfo(wish.schedule.zone))))


async def show_issue(_: CallbackQuery, callback_data: DigestButton, talk: Talk) -> str | None:
    found = await _mine(talk, callback_data.id)
    if found is None:
        return talk.say.plain("too_old")
    await _issue(talk, found, max(0, min(callback_data.at, MOST_BACK)))
    return None


async def _issue(talk: Talk, found: Digest, back: int) -> None:
    """`back`: how many issues before the newest."""
    digests, say = talk.digests, talk.say
    issues = await digests.issues.page(found.tenant_id, found.id, limit=back + 2)
    if not issues:
        await talk.show(_no_issue(talk, found), rows([_now(talk, found)], [_switch(talk, found)]))
        return
    at = min(back, len(issues) - 1)
    issue = issues[at]
    older = DigestButton(do="show", id=found.id, at=at + 1)
    newer = DigestButton(do="show", id=found.id, at=at - 1)
    turns = [button(say.plain("digest_older"), older)] if len(issues) > at + 1 else []
    turns += [button(say.plain("digest_newer"), newer)] if at else []
    html = issue_text(found.wish, issue.since, issue.until, await digests.maker.show(issue), say)
    await talk.show(html, rows(turns, [_now(talk, found)], [_switch(talk, found)]))


def _no_issue(talk: Talk, found: Digest) -> Markup:
    name = shortened(found.wish.name, 100)
    if not found.wish.enabled or found.next_at is None:
        return talk.say("digest_off_state", name=name)
    zone = ZoneInfo(found.wish.schedule.zone)
    return talk.say("digest_no_issue", name=name, when=talk.say.when(found.next_at, zone))


async def preview(_: CallbackQuery, callback_data: DigestButton, talk: Talk) -> str | None:
    """What the digest would say now."""
    caller = talk.caller
    found = await _mine(talk, callback_data.id)
    if found is None:
        return talk.say.plain("too_old")
    wait = await talk.services.access.allow(f"bot:preview:{caller.user_id}", limit=PREVIEWS_PER_HOUR, per=3600)
    if wait > 0:
        return talk.say.plain("slow_down", n=ceil(wait))
    maker = talk.digests.maker
    since, until, content = await maker.preview(caller.tenant_id, caller.user_id, found.wish, digest_id=found.id)
    await talk.answer(issue_text(found.wish, since, until, ShownIssue(content=content), talk.say))
    return None


async def switch_digest(_: CallbackQuery, callback_data: DigestButton, talk: Talk) -> str:
    """Whether it comes to Telegram; it stays on the page in any case."""
    found = await _mine(talk, callback_data.id)
    if found is None:
        return talk.say.plain("too_old")
    wanted = callback_data.do == "on"
    ways = {*found.wish.ways, Way.BOT} if wanted else {*found.wish.ways} - {Way.BOT}
    wish = replace(found.wish, ways=tuple(way for way in Way if way in ways), enabled=found.wish.enabled or wanted)
    await talk.digests.change(found, wish)
    return talk.say.plain("digest_on_done" if wanted else "digest_off_done")


def _switch(talk: Talk, found: Digest) -> InlineKeyboardButton:
    comes = Way.BOT in found.wish.ways and found.wish.enabled
    do, text = ("off", "digest_off") if comes else ("on", "digest_on")
    return button(talk.say.plain(text), DigestButton(do=do, id=found.id))


async def _mine(talk: Talk, digest_id: UUID) -> Digest | None:
    return await talk.digests.digests.get(talk.caller.tenant_id, talk.caller.user_id, digest_id)


def _now(talk: Talk, found: Digest) -> InlineKeyboardButton:
    return button(talk.say.plain("digest_now"), DigestButton(do="now", id=found.id))


async def trends(_: Message | CallbackQuery, talk: Talk) -> None:
    """Of the last days, the newest first; each with who told it first."""
    say, services = talk.say, talk.services
    now = services.clock()
    found = await Trends(services.database).page(
        talk.caller.tenant_id, since=now - TREND_DAYS, before=now, limit=MOST_TRENDS
    )
    told = [Markup("{}. {}").format(number, _trend(one, talk)) for number, one in enumerate(found, 1)]
    await talk.show(paragraphs([say("trends"), *told]) if told else say("no_trends"))


def _trend(found: FoundTrend, talk: Talk) -> Markup:
    say, name, first = talk.say, found.main.key, found.first
    if found.main.kind is Kind.TOPIC:
        name = topic_title(name, say.language, talk.services.settings.ai_topics_file)
    told = say(
        "trend",
        name=shortened(name, 100),
        n=found.mentions,
        expected=f"{found.expected:.0f}",
        channels=say("trend_channels", n=found.channels),
    )
    if first is None:
        return told
    return lines(told, say("trend_first", post=href(first.url, first.channel_title), when=say.when(first.posted_at)))


async def admin(_: Message | CallbackQuery, talk: Talk) -> None:
    say, tenant = talk.say, talk.caller.tenant_id
    if not talk.caller.is_admin:
        await talk.answer(say("admins_only"))
        return
    # The report names what all tenants watch: it is for the operator.
    details = await talk.services.health.details() if talk.caller.is_operator else {"troubles": []}
    troubles = [shortened(str(one), 300) for one in details["troubles"]]
    summary = await WatchedChannels(talk.services.database).summary(tenant)
    people = await Users(talk.services.database).of_tenant(tenant, limit=MOST_PEOPLE)
    figures = say(
        "admin_figures",
        channels=summary.channels,
        failing=summary.failing,
        posts=summary.captured,
        people=len(people),
    )
    listed = [Markup("• {}").format(one) for one in troubles[:MOST_TROUBLES]]
    well = say("admin_ok") if talk.caller.is_operator else ""
    state = lines(say("admin_troubles", n=len(troubles)), *listed) if troubles else well
    await talk.show(paragraphs([state, figures]), rows([button(say.plain("refresh"), Go(to="admin"))]))


async def mute(_: CallbackQuery, callback_data: Mute, talk: Talk) -> str:
    store = SavedSearches(talk.services.database)
    found = await store.get(talk.caller.tenant_id, talk.caller.user_id, callback_data.id)
    if found is None:
        return talk.say.plain("too_old")
    await store.change(found, muted=callback_data.muted)
    return talk.say.plain("muted" if callback_data.muted else "unmuted")
