"""Live updates in order. What was missed is never guessed: the consumer is told to read again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from telethon.tl import types

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import Changes, Deleted, Interrupted, LiveUpdate, NewPost, SourceError
from telegram_assistant.log import get_logger
from telegram_assistant.source.telegram_errors import source_error
from telegram_assistant.source.telegram_messages import names_of, post_of

QUEUE_SIZE = 1000

log = get_logger(__name__)


class Inbox:
    """Takes what Telegram pushes until it is read. Full: it is emptied, and everything must be read again.

    Each change of a channel has a number (`pts`), one above the last, or more when it counts for several. A number
    that is too high is a gap. One that is not above the last was seen, or belongs to a gap that was told already,
    whose reading shows more than this old state of a post.
    """

    def __init__(self, size: int = QUEUE_SIZE) -> None:
        self._queue: asyncio.Queue[LiveUpdate | SourceError] = asyncio.Queue(size)
        self._last: dict[int, int] = {}  # channel -> pts

    async def next(self) -> LiveUpdate:
        update = await self._queue.get()
        if isinstance(update, SourceError):
            raise update
        return update

    def received(self, updates: Any) -> None:
        """A push, as Telethon hands it over."""
        match updates:
            case types.Updates() | types.UpdatesCombined():
                names = names_of(updates)
                # Within one push the order of what belongs to a channel is not certain.
                for update in sorted(updates.updates, key=_position):
                    self._take(update, names)
            case types.UpdateShort(update=update):
                self._take(update, {})
            case types.UpdatesTooLong():
                self._put(Interrupted(None))
            case _:
                pass  # short forms exist for private chats only

    def reconnected(self, error: Exception | None) -> None:
        """Nothing that happened in between is sent again; so the numbers are kept, and show what else is missing."""
        if error is None:
            self._put(Interrupted(None))
        else:
            self._fail(source_error(error, "after reconnecting"))

    def disconnected(self, connection: asyncio.Future[Any]) -> None:
        """Telethon gave the connection up."""
        if connection.cancelled():
            return
        error = connection.exception()
        if isinstance(error, Exception):
            self._fail(source_error(error, "live updates"))
        else:
            self._fail(SourceError(Failure.TRANSIENT, "live updates: the connection was closed"))

    def _take(self, update: Any, names: Mapping[int, str]) -> None:
        match update:
            case types.UpdateChannelTooLong(channel_id=channel_id, pts=pts):
                if pts is not None:
                    self._last[channel_id] = pts
                self._put(Interrupted(channel_id))
            case types.UpdateNewChannelMessage(message=message) | types.UpdateEditChannelMessage(message=message):
                channel_id = getattr(message.peer_id, "channel_id", None)
                if channel_id is not None and self._is_news(channel_id, update):
                    post = post_of(message, names)
                    self._put(Interrupted(channel_id) if post is None else NewPost(post))
            case types.UpdateDeleteChannelMessages(channel_id=channel_id, messages=ids):
                if self._is_news(channel_id, update):
                    self._put(Deleted(channel_id, tuple(ids)))
            case types.UpdatePinnedChannelMessages() | types.UpdateChannelWebPage():
                self._is_news(update.channel_id, update)
            case _:
                pass

    def _is_news(self, channel_id: int, update: Any) -> bool:
        last, pts = self._last.get(channel_id), update.pts
        if last is not None and pts:
            if pts <= last:
                return False
            if pts != last + update.pts_count:
                log.info("updates_missed", channel_id=channel_id, expected=last + update.pts_count, pts=pts)
                self._put(Interrupted(channel_id))
        if pts:
            self._last[channel_id] = pts
        return True

    def _put(self, update: LiveUpdate) -> None:
        try:
            self._queue.put_nowait(update)
        except asyncio.QueueFull:
            log.warning("updates_overflowed", dropped=self._queue.qsize())
            self._clear()
            self._queue.put_nowait(Interrupted(None))

    def _fail(self, error: SourceError) -> None:
        if self._queue.full():
            self._clear()
        self._queue.put_nowait(error)

    def _clear(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()


def _position(update: Any) -> int:
    return int(getattr(update, "pts", None) or 0) - int(getattr(update, "pts_count", None) or 0)


def changes_of(answer: Any) -> Changes:
    """What an answer to updates.getChannelDifference tells. A message that is new and gone again is only gone."""
    match answer:
        case types.updates.ChannelDifferenceTooLong(dialog=dialog):
            return Changes(dialog.pts, too_long=True)
        case types.updates.ChannelDifferenceEmpty(pts=pts):
            return Changes(pts)
    messages, gone = list(answer.new_messages), set[int]()
    for update in answer.other_updates:
        match update:
            case types.UpdateNewChannelMessage(message=message) | types.UpdateEditChannelMessage(message=message):
                messages.append(message)
            case types.UpdateDeleteChannelMessages(messages=ids):
                gone.update(ids)
            case _:
                pass  # reads, pins and typing change no post
    names = names_of(answer)
    # By id: of a post that was edited twice the later state counts.
    found = {message.id: post_of(message, names) for message in messages if type(message) is not types.MessageEmpty}
    posts = [post for number, post in sorted(found.items()) if post is not None and number not in gone]
    return Changes(answer.pts, tuple(posts), tuple(sorted(gone)), final=bool(answer.final))
