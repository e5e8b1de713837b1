"""Messages that people did not ask for this moment: alerts, each once, and digests. Blocked: none are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import msgspec
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import InlineKeyboardMarkup
from markupsafe import Markup, escape
from redis.asyncio import Redis

from telegram_assistant.access.service import Access
from telegram_assistant.bot.buttons import Digest as DigestButton
from telegram_assistant.bot.buttons import Mute, button, link_button, rows
from telegram_assistant.bot.messenger import Gone, Messenger
from telegram_assistant.bot.words import Say, href, issue_text, lines, paragraphs, post_line, shortened
from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.digests import Digest, Issue, Way
from telegram_assistant.domain.results import Shown
from telegram_assistant.errors import Reject
from telegram_assistant.jobs.digests import Parcel, ShownIssue
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_state import Memory, alerts_key
from telegram_assistant.stores.postgres.telegram_users import FoundPost, TelegramAlerts, TelegramUsers, ToldNotice
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.redis import text_of

PAUSE = 5.0  # seconds between two looks
AT_ONCE = 100
OLDEST = timedelta(days=1)  # what is older is no news any more, and stands on the page
PER_HOUR = 30  # alerts to one person; then they are told where the others are
FIRST_ID = UUID(int=0)
LONGEST_TEXT = 1_000

log = get_logger(__name__)


class Position(msgspec.Struct, frozen=True):
    """Up to where everything was told."""

    found_at: datetime
    noticed_at: datetime
    post_id: UUID = FIRST_ID
    search_id: UUID = FIRST_ID
    notice_id: UUID = FIRST_ID


@dataclass(frozen=True)
class Underway:
    """What was done for the alert that is being told: after a Retry it is begun again, and they are not."""

    granted: set[UUID] = field(default_factory=set)  # people whose limit it was counted against
    told: set[UUID] = field(default_factory=set)

    def over(self) -> None:
        self.granted.clear()
        self.told.clear()


@dataclass(frozen=True)
class BotAlerts:
    """The job of a supervised task: works while it is this process's turn. Begins with what happens from now on."""

    alerts: TelegramAlerts
    posts: VisiblePosts
    delivery: Delivery
    access: Access
    redis: Redis
    bot_id: int
    turn: asyncio.Event
    underway: Underway = field(default_factory=Underway)

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self.turn.wait()
            await self.once()
            task.progress()
            await asyncio.sleep(PAUSE)

    async def once(self) -> int:
        """How many were told. Raises Retry where Telegram wants us to wait; then it goes on at the same place."""
        now = await self.alerts.now()
        known = await self._position()
        at = known or Position(now, now)
        if known is None:
            await self._keep(at)
        told = 0
        while found := await self.alerts.found(at.found_at, at.post_id, at.search_id, limit=AT_ONCE):
            for one in found:
                told += await self._found(one) if now - one.at < OLDEST else 0
                at = msgspec.structs.replace(at, found_at=one.at, post_id=one.id, search_id=one.search_id)
                await self._keep(at)
        while notices := await self.alerts.notices(at.noticed_at, at.notice_id, limit=AT_ONCE):
            for notice in notices:
                told += await self._notice(notice) if now - notice.at < OLDEST else 0
                at = msgspec.structs.replace(at, noticed_at=notice.at, notice_id=notice.id)
                await self._keep(at)
        return told

    async def _found(self, one: FoundPost) -> int:
        shown = (await self.posts.posts(one.tenant_id, [one.id])).get(one.id)
        if shown is None or shown.deleted or not await self._allowed(one.tenant_id, one.user_id):
            return 0
        return await self._sent(self.delivery.send_alert(one, shown), one.user_id)

    async def _notice(self, notice: ToldNotice) -> int:
        told = 0
        for user_id in notice.users:
            if user_id not in self.underway.told and await self._allowed(notice.tenant_id, user_id):
                say = Say(await self.delivery.language(user_id))
                sending = self.delivery.send(notice.tenant_id, user_id, notice_text(notice, say))
                told += await self._sent(sending, user_id)
        return told

    async def _sent(self, sending: Awaitable[object], user_id: UUID) -> bool:
        """A message that Telegram will never take must not hold up those of other users."""
        try:
            await sending
        except TelegramBadRequest:
            log.exception("bot_alert_refused", user=str(user_id))
            return False
        self.underway.told.add(user_id)
        return True

    async def _allowed(self, tenant_id: UUID, user_id: UUID) -> bool:
        granted = self.underway.granted
        if user_id in granted or await self.access.allow(f"bot:alerts:{user_id}", limit=PER_HOUR, per=3600) == 0:
            granted.add(user_id)
            return True
        if await self.access.allow(f"bot:more:{user_id}", limit=1, per=3600) == 0:
            say = Say(await self.delivery.language(user_id))
            await self._sent(self.delivery.send(tenant_id, user_id, say("alerts_more")), user_id)
        return False

    async def _position(self) -> Position | None:
        found = text_of(await self.redis.get(alerts_key(self.bot_id)))
        return None if found is None else msgspec.json.decode(found, type=Position)

    async def _keep(self, at: Position) -> None:
        self.underway.over()
        await self.redis.set(alerts_key(self.bot_id), msgspec.json.encode(at))


def notice_text(notice: ToldNotice, say: Say) -> Markup:
    content = notice.content
    code = str(content.get("code", ""))
    if notice.state == "resolved":
        over = "notice_room" if code in ("warning", "full") else "notice_well"
        return say(over, title=_title(notice))
    known = code if code in ("edited", "deleted", "gone", "failing", "holes", "warning", "full") else "other"
    told = say(
        f"notice_{known}",
        title=_title(notice),
        unknown=int(content.get("unknown") or 0),
        percent=int(content.get("percent") or 0),
        megabytes=int(content.get("megabytes") or 0),
    )
    return lines(told, escape(shortened(str(content.get("error") or ""), 300)))


def _title(notice: ToldNotice) -> Markup:
    content = notice.content
    title = shortened(str(content.get("title") or ""), 200)
    name = content.get("username")
    url = str(content.get("url") or (f"https://t.me/{name}" if name else ""))
    return href(url, title) if url else escape(title)


class Outcome(StrEnum):
    """What became of a message."""

    SENT = "sent"
    NOT_LINKED = "not_linked"  # the user has no Telegram here, or is disabled
    BLOCKED = "blocked"  # they blocked the bot; nothing is sent until they write to it again


class Delivery:
    """Every method raises Retry (with `after`, if Telegram names a time) when it should be tried again."""

    def __init__(self, messenger: Messenger, memory: Memory, accounts: TelegramUsers) -> None:
        self.messenger = messenger
        self._memory = memory
        self._accounts = accounts

    async def close(self) -> None:
        """Only for the caller of `open_delivery`."""
        await self.messenger.bot.session.close()

    async def language(self, user_id: UUID) -> str:
        return await self._memory.language(user_id)

    async def send_alert(self, found: FoundPost, post: Shown) -> Outcome:
        say = Say(await self._memory.language(found.user_id))
        text = shortened(post.text, LONGEST_TEXT) or say("wordless")
        also = say("alert_also", n=found.also) if found.also else ""
        html = paragraphs([lines(say("alert", name=found.name), post_line(post, say)), lines(escape(text), also)])
        mute = button(say.plain("mute"), Mute(id=found.search_id, muted=True))
        keyboard = rows([link_button(say.plain("open"), post.url), mute])
        return await self.send(found.tenant_id, found.user_id, html, keyboard)

    async def send_digest(self, digest: Digest, issue: Issue, shown: ShownIssue, *, url: str | None = None) -> Outcome:
        """`url`: of the issue on the page."""
        say = Say(digest.wish.language)
        keyboard = rows(
            [button(say.plain("digest_older"), DigestButton(do="show", id=digest.id, at=1))],
            [link_button(say.plain("open"), url)] if url and url.startswith("https://") else [],
            [button(say.plain("digest_off"), DigestButton(do="off", id=digest.id))],
        )
        html = issue_text(digest.wish, issue.since, issue.until, shown, say)
        return await self.send(digest.tenant_id, digest.user_id, html, keyboard)

    async def send(
        self, tenant_id: UUID, user_id: UUID, html: str, keyboard: InlineKeyboardMarkup | None = None
    ) -> Outcome:
        """Markup of ours, everything in it escaped."""
        chat = await self._accounts.of_user(tenant_id, user_id)
        if chat is None:
            return Outcome.NOT_LINKED
        if await self._memory.has_blocked(user_id):
            return Outcome.BLOCKED
        try:
            await self.messenger.send(chat, html, keyboard)
        except Gone as exc:
            log.info("bot_blocked", user=str(user_id), reason=str(exc))
            await self._memory.blocks(user_id, blocked=True)
            return Outcome.BLOCKED
        return Outcome.SENT


class BotWay:
    """The way of digests to the bot, for the job that brings them (`jobs/digests.py`)."""

    name = Way.BOT.value

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def send(self, parcel: Parcel) -> None:
        """Raises Retry when it may work later, Reject with a sentence for the reader when it will not."""
        outcome = await self._delivery.send_digest(parcel.digest, parcel.issue, parcel.shown, url=parcel.page)
        if outcome is Outcome.NOT_LINKED:
            raise Reject("Your Telegram is not linked: link it on your account page")
        if outcome is Outcome.BLOCKED:
            raise Reject("You have blocked the bot: unblock it in Telegram and send it /start")
