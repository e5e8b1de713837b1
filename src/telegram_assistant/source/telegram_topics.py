"""The topics of a forum, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from telethon.tl import functions, types

from telegram_assistant.domain.source import PAGE_LIMIT, Topic
from telegram_assistant.domain.text import clean_text


async def read_topics(ask: Callable[[Any], Awaitable[Any]], peer: Any) -> tuple[Topic, ...]:
    """All of them. A page begins after the last topic of the one before, which is told by its newest message."""
    found: dict[int, Topic] = {}
    date, message_id, topic_id = None, 0, 0
    while True:
        answer = await ask(functions.messages.GetForumTopicsRequest(peer, date, message_id, topic_id, PAGE_LIMIT))
        page = [one for one in answer.topics if isinstance(one, types.ForumTopic) and one.id not in found]
        found |= {one.id: _topic(one) for one in page}
        if not page or len(found) >= answer.count:
            return tuple(found.values())
        last = page[-1]
        dates = {message.id: getattr(message, "date", None) for message in answer.messages}
        by_creation = answer.order_by_create_date
        date = last.date if by_creation else dates.get(last.top_message, last.date)
        message_id, topic_id = last.top_message, last.id


def _topic(topic: Any) -> Topic:
    return Topic(topic.id, clean_text(topic.title), closed=bool(topic.closed), hidden=bool(topic.hidden))
