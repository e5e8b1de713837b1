"""A channel as its public preview shows it: a source without an account.

A page proves what it shows. That an id holds nothing is proven only by the widget of that post, which says so, while a
post that is known to exist (the canary) is shown before and after: a visitor whom the site does not like any more is
told of every post that it is missing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import replace
from datetime import datetime
from time import monotonic
from uuid import UUID

from telegram_assistant.domain.accounts import Priority, Reach
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.post import LARGEST_MESSAGE_ID, Media, Post
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import PAGE_LIMIT, ChannelInfo, Name, Page, SourceError
from telegram_assistant.source import PlainSource
from telegram_assistant.source.preview_page import NotShown, PreviewPage, Refusal, read_page, read_post
from telegram_assistant.source.preview_site import PREVIEW, PreviewSite
from telegram_assistant.stores.postgres.channels import Channel

WINDOW = 20  # ids that a page spans, at least
SERIES = 20  # posts that are asked for one by one between two looks at the canary
CANARY_SECONDS = 120.0  # a look at the canary holds for what is asked so soon after it
PIECE = 256 * 1024

_FAILURES = {
    Refusal.MISSING: Failure.GONE,
    Refusal.PERSON: Failure.GONE,
    Refusal.CHANGED: Failure.FATAL,
}


class PreviewChannel(PlainSource):
    """One channel, by its public name."""

    pages_prove = False
    ids_at_once = SERIES

    def __init__(self, site: PreviewSite, channel_id: int, username: str) -> None:
        self.protected = False  # as an account told it once: pages do not
        self._site = site
        self._channel_id = channel_id
        self._username = username
        self._canary: int | None = None
        self._canary_seen = -CANARY_SECONDS

    @property
    def channel_id(self) -> int:
        return self._channel_id

    def is_called(self, username: str) -> bool:
        return self._username == username

    async def describe(self) -> ChannelInfo:
        return info_of(await self._newest(), self._username)

    async def page_after(self, after_id: int, limit: int = PAGE_LIMIT, *, unreadable: Collection[int] = ()) -> Page:  # noqa: ARG002 - pages are short, and show what they can
        # After 0 the site shows the newest page.
        page = await self._page(f"?after={max(1, after_id)}")
        if page is None or not any(post.message_id > after_id for post in page.posts):
            page = await self._newest()
        posts = tuple(post for post in page.posts if post.message_id > after_id)
        strange = tuple(number for number in page.unreadable if number > after_id)
        name = Name(page.card.title or self._username, page.card.username or self._username, self.protected)
        return Page(posts, reached_end=page.newer is None, unreadable=strange, name=name)

    async def page_before(self, before_id: int, limit: int = PAGE_LIMIT, *, above: int = 0) -> Page | None:
        page = await self._page(f"?before={before_id}")
        posts = [] if page is None else [post for post in page.posts if above < post.message_id < before_id]
        return Page(tuple(posts[-limit:]), reached_end=False)

    async def last_id_before(self, moment: datetime) -> int:
        """Pages know no dates: the ids are halved until the border is found."""
        found, below, above = 0, 0, LARGEST_MESSAGE_ID  # between these ids the border lies
        page: PreviewPage | None = await self._newest()
        for _ in range(LARGEST_MESSAGE_ID.bit_length()):
            older = [post.message_id for post in page.posts if post.posted_at < moment] if page else []
            newer = [post.message_id for post in page.posts if post.posted_at >= moment] if page else []
            found, above = max([found, *older]), min([above, *newer])
            below = max(below, found)
            if (older and newer) or above - below <= 1 or above == LARGEST_MESSAGE_ID:
                break
            half, near = (below + above) // 2, above - below <= WINDOW
            page = await self._page(f"?before={above if near else half + 1}")
            if page is None or not any(below < post.message_id < above for post in page.posts):
                if near:
                    break
                below = half
        return found

    async def by_ids(self, ids: Collection[int]) -> dict[int, Post | None]:
        """A page shows several at once; of what it does not show, each post's own widget is asked."""
        found: dict[int, Post | None] = {}
        alone: list[int] = []
        left = sorted(set(ids), reverse=True)
        while left:
            top = left[0]
            near = [number for number in left if number > top - WINDOW]
            left = left[len(near) :]
            shown: dict[int, Post] = {}
            if len(near) > 1:
                page = await self._page(f"?before={top + 1}")
                shown = {} if page is None else {post.message_id: post for post in page.posts}
            found |= {number: shown[number] for number in near if number in shown}
            alone += [number for number in near if number not in shown]
        for start in range(0, len(alone), SERIES):
            found |= await self._one_by_one(alone[start : start + SERIES])
        return found

    async def download(self, message_id: int, media: Media) -> AsyncGenerator[bytes, None]:
        for fresh in (media, replace(media, reference=None)):
            url = fresh.reference or await self._address(message_id, media)
            data = await self._site.file(str(url)) if url else None
            if data is not None:
                for start in range(0, len(data), PIECE):
                    yield data[start : start + PIECE]
                return
        raise SourceError(Failure.REFERENCE_EXPIRED, "the file's address is not valid, and the page shows no other")

    async def _address(self, message_id: int, media: Media) -> object:
        post = (await self.by_ids([message_id])).get(message_id)
        if post is None:
            raise SourceError(Failure.GONE, "the message is not shown any more")
        return next((one.reference for one in post.media if one.file_id == media.file_id), None)

    async def _one_by_one(self, ids: Collection[int]) -> dict[int, Post | None]:
        await self._check_canary()
        told: dict[int, Post | None] = {}
        for number in ids:
            if number not in told:
                posts = await self._post(number)
                told |= {number: None} if posts is None else {post.message_id: post for post in posts}
        if None in told.values():
            self._canary_seen = -CANARY_SECONDS
            await self._check_canary()
        return {number: post for number, post in told.items() if number in ids}

    async def _check_canary(self) -> None:
        """Raises SourceError where a post that exists is called missing: then no answer of now counts."""
        if monotonic() - self._canary_seen < CANARY_SECONDS:
            return
        if self._canary is None:
            self._canary = (await self._newest()).posts[-1].message_id
        if await self._post(self._canary) is None:
            self._canary = None  # it may have been deleted just now: the next time another one is asked for
            raise self._site.refused(f"it calls a post of @{self._username} missing that it showed before")
        self._canary_seen = monotonic()

    async def _post(self, message_id: int) -> tuple[Post, ...] | None:
        body = await self._site.page(f"/{self._username}/{message_id}?embed=1&mode=tme")
        try:
            posts = read_post(body, self._channel_id)
        except NotShown as exc:
            raise self._refused(exc) from exc
        self._site.welcome()
        return posts

    async def _newest(self) -> PreviewPage:
        page = await self._page("")
        if page is None:
            raise SourceError(Failure.CHANNEL_PRIVATE, NotShown(Refusal.EMPTY).words(f"@{self._username}"))
        self._canary = page.posts[-1].message_id
        return page

    async def _page(self, query: str) -> PreviewPage | None:
        """None: a page of the channel without any post."""
        try:
            page = await fetch_page(self._site, self._username, query)
        except NotShown as exc:
            if exc.refusal is Refusal.EMPTY:
                return None
            raise self._refused(exc) from exc
        if page.channel_id != self._channel_id:
            words = f"@{self._username} is the name of another channel now: {page.card.title}"
            raise SourceError(Failure.GONE, words)
        return page

    def _refused(self, exc: NotShown) -> SourceError:
        return error_of(exc, self._site, self._username)


async def fetch_page(site: PreviewSite, username: str, query: str = "") -> PreviewPage:
    """Raises NotShown and SourceError."""
    page = read_page(await site.page(f"/s/{username}{query}"))
    site.welcome()
    return page


def error_of(exc: NotShown, site: PreviewSite, username: str) -> SourceError:
    """In the words of the refusal, and with what kind of failure it is."""
    words = exc.words(f"@{username}")
    if exc.refusal is Refusal.ODD:
        return site.refused(words)
    return SourceError(_FAILURES.get(exc.refusal, Failure.CHANNEL_PRIVATE), words)


def info_of(page: PreviewPage, username: str) -> ChannelInfo:
    card = page.card
    return ChannelInfo(
        id=page.channel_id,
        title=card.title or username,
        username=card.username or username,
        about=card.about,
        subscribers=card.subscribers,
    )


class Previews:
    """Public previews as an origin of channels: those that were added by them, until an account can read them."""

    def __init__(self, site: PreviewSite) -> None:
        self._site = site
        self._channels: dict[int, PreviewChannel] = {}

    async def reach(self) -> Reach:
        return Reach(knowing=() if self._site.closed_for else (PREVIEW,))

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> PreviewChannel:  # noqa: ARG002 - all wait alike
        if PREVIEW not in channel.access_hash or channel.username is None:
            raise SourceError(Failure.ACCOUNT, f"{channel.shown} is not read by its public preview")
        known = self._channels.get(channel.id)
        if known is None or not known.is_called(channel.username):
            known = self._channels[channel.id] = PreviewChannel(self._site, channel.id, channel.username)
        known.protected = channel.protected
        return known

    @property
    def closed_for(self) -> float:
        return self._site.closed_for

    def witness(self, channel: Channel) -> PreviewChannel:
        """Its preview, also where an account reads the channel. Raises SourceError where it has no public name."""
        if channel.username is None:
            raise SourceError(Failure.CHANNEL_PRIVATE, f"{channel.shown} has no public name, and so no preview")
        return PreviewChannel(self._site, channel.id, channel.username)

    async def resolve(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo]:  # noqa: ARG002 - it is public
        if ref.username is None:
            raise SourceError(Failure.ACCOUNT, f"{ref} has no public name: connect a Telegram account with tga login")
        try:
            return PREVIEW, info_of(await fetch_page(self._site, ref.username), ref.username)
        except NotShown as exc:
            raise error_of(exc, self._site, ref.username) from exc
