"""Reading messages so that what an answer proves is never more than it says, and one bad message stops nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from telegram_assistant.domain.post import Post
from telegram_assistant.domain.source import PAGE_LIMIT, Page
from telegram_assistant.log import get_logger
from telegram_assistant.source.telegram_errors import UnreadableAnswer
from telegram_assistant.source.telegram_messages import Messages, messages_of

AskPage: TypeAlias = Callable[[int, int, bool], Awaitable[Any]]  # after this id, at most so many, that one too or not
AskBelow: TypeAlias = Callable[[int, int], Awaitable[Any]]  # the first after this id, if its id is below that one
AskIds: TypeAlias = Callable[[Sequence[int]], Awaitable[Any]]

MAX_UNREADABLE = 10  # in a page; with more of them it is not the messages that are wrong
LAST_ID = 2**31 - 1

NOTHING = Messages((), (), ())

log = get_logger(__name__)


@dataclass(slots=True)
class ById:
    """What reading by ids told: a post or None for each id that it told of."""

    found: dict[int, Post | None] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)

    @property
    def posts(self) -> list[Post]:
        return [post for _, post in sorted(self.found.items()) if post is not None]


async def read_page(ask: AskPage, ask_below: AskBelow, after_id: int, limit: int) -> Page:
    """The oldest messages after an id.

    The end is reached when the answer holds a message from before the page: Telegram gives a run of messages
    without holes, so that one had nothing newer to give; or when it holds nothing newer at all. A short page alone
    proves nothing, for Telegram leaves messages out that it may not show; one that holds as many as Telegram counts in
    the whole channel is all there is.
    """
    if not 1 <= limit <= PAGE_LIMIT:
        raise ValueError(f"a page has 1 to {PAGE_LIMIT} messages, not {limit}")
    below = after_id
    while True:
        try:
            answer = await _ask_either_way(ask, below, limit)
            found = messages_of(answer)
        except UnreadableAnswer as exc:
            return await _page_before_unreadable(ask, ask_below, below, limit, error=exc)
        newer = [message_id for message_id in found.ids if message_id > after_id]
        alone = len(newer) == len(found.ids) and _holds_all(answer, found)
        reached_end = alone or len(newer) < len(found.ids) or not newer
        posts = tuple(post for post in found.posts if post.message_id > after_id)
        unreadable = tuple(message_id for message_id in found.unreadable if message_id > after_id)
        if posts or unreadable or reached_end:
            return Page(posts, reached_end, unreadable, alone)
        below = max(newer)  # only messages that are gone: no sign of the end


def _holds_all(answer: Any, found: Messages) -> bool:
    """Whether an answer holds as many messages as it says there are. None at all is no sign."""
    count, inexact = getattr(answer, "count", None), getattr(answer, "inexact", False)
    return bool(found.ids) and not inexact and count == len(found.posts) + len(found.unreadable)


async def _ask_either_way(ask: AskPage, after_id: int, limit: int) -> Any:
    """With the message before the page, as a sign of the end; without it, where that one cannot be parsed."""
    try:
        return await ask(after_id, limit, True)
    except UnreadableAnswer:
        return await ask(after_id, limit, False)


async def read_ids(ask: AskIds, ids: Sequence[int]) -> ById:
    """Messages by their ids. Where an answer cannot be parsed, its halves are asked for: the bad ids remain."""
    told = ById()
    waiting = [list(ids)]
    while waiting:
        part = waiting.pop()
        try:
            found = messages_of(await ask(part))
        except UnreadableAnswer as exc:
            if len(part) > 1:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
                continue
            log.warning("message_unreadable", message=part[0], reason=str(exc))
            told.unreadable += part
            if len(told.unreadable) > MAX_UNREADABLE:
                raise
            continue
        posts = {post.message_id: post for post in found.posts}
        told.found.update((one, posts.get(one)) for one in found.ids if one not in found.unreadable)
        told.unreadable += found.unreadable
    return told


async def _page_before_unreadable(
    ask: AskPage, ask_below: AskBelow, after_id: int, limit: int, *, error: UnreadableAnswer
) -> Page:
    """What precedes the message that spoils a page, and that message's id.

    Half of the page, and half of that, until one message is left. Its id is found with a limit for ids: where they are
    far apart there are too many to be asked for one by one.
    """
    good, bad = 0, limit  # of so many messages all can be read, or not
    found = NOTHING
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            found, good = messages_of(await ask(after_id, middle, False)), middle
        except UnreadableAnswer:
            bad = middle
    last = max(found.ids, default=after_id)
    unreadable = await _first_after(ask_below, last, error)
    log.warning("message_unreadable", message=unreadable, reason=str(error))
    return Page(found.posts, False, (*found.unreadable, unreadable), complete=len(found.ids) == good)


async def _first_after(ask: AskBelow, after_id: int, error: UnreadableAnswer) -> int:
    """The id of the first message after one, which cannot be parsed: the answer is empty, or spoiled."""

    async def spoils(below: int) -> bool:
        try:
            return bool(messages_of(await ask(after_id, below)).ids)
        except UnreadableAnswer:
            return True

    if await spoils(after_id + 1):
        raise error  # nothing can be there: it is not a message that is wrong
    step = 1
    while not await spoils(after_id + step + 1):
        step *= 2
        if after_id + step >= LAST_ID:
            raise error  # it is gone, or not alone to blame
    low, high = after_id + step // 2 + 1, after_id + step
    while low < high:
        middle = (low + high) // 2
        if await spoils(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low
