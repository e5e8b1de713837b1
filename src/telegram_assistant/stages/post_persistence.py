"""`post_persistence` (SPEC 4.2). Our own posts are saved before they are told of; what another producer tells is saved
here, by the same code, which then tells of it itself. From here on a post can be found by its words: that must not wait
for models, which may be slow or away."""

from __future__ import annotations

from collections.abc import Sequence

from telegram_assistant.bus.stage import Done, Outcome, each
from telegram_assistant.domain.events import PostParsed
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.post import LARGEST_ID, Counters, Forward, Post, ReplyTo
from telegram_assistant.domain.text import Link, clean_text
from telegram_assistant.errors import Reject, Skip
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.stages.index_entry import EntryReader, TextIndex

LARGEST_COUNT = 2**31 - 1  # what the tables hold


async def save_posts(
    events: Sequence[PostParsed], *, texts: TextIndex, entries: EntryReader, saver: Saver
) -> list[Outcome]:
    """A post that is there was saved by ingest."""
    known = await texts.put_words([event.post_id for event in events], entries)

    async def one(event: PostParsed) -> Done:
        if event.post_id in known:
            raise Skip("")
        post = _post(event)
        if post.id != event.post_id:
            raise Reject(f"post_id must be {post.id} for message {event.telegram_message_id} of {event.channel_id}")
        try:
            itself = Coverage.of_ids([post.message_id])
            await saver.save(Reading(channel_id=event.channel_id, posts=[post], proven=itself, told=True))
        except Skip as exc:
            raise Reject(f"{exc}; add the channel first") from exc
        return Done(note="saved for another producer")

    return await each(events, one, at_once=1)


def _post(event: PostParsed) -> Post:
    counts = (event.views, event.forwards, event.replies, *event.reactions.values())
    if any(not 0 <= count <= LARGEST_COUNT for count in counts if count is not None):
        raise Reject(f"a counter is from 0 to {LARGEST_COUNT}")
    if not -LARGEST_ID <= (event.grouped_id or 0) <= LARGEST_ID:
        raise Reject(f"grouped_id {event.grouped_id} does not fit 64 bits")
    forward = Forward(channel_id=event.forward_channel_id, message_id=event.forward_message_id)
    try:
        return Post(
            channel_id=event.channel_id,
            message_id=event.telegram_message_id,
            posted_at=event.posted_at,
            text=clean_text(event.text),
            links=tuple(Link(clean_text(url), "") for url in event.urls),
            grouped_id=event.grouped_id,
            forward=forward if event.forward_channel_id is not None else None,
            reply_to=ReplyTo(message_id=event.reply_to_message_id) if event.reply_to_message_id else None,
            author=clean_text(event.author) if event.author else None,
            edited_at=event.edited_at,
            counters=Counters.counted(
                views=event.views, forwards=event.forwards, replies=event.replies, reactions=event.reactions
            ),
        )
    except ValueError as exc:  # an id that no message can have, a time without its zone
        raise Reject(str(exc)) from exc
