"""Where the history that we ask for begins: never in the middle of an album."""

from __future__ import annotations

from telegram_assistant.domain.album import MAX_ITEMS
from telegram_assistant.domain.source import Peer, Source


async def between_albums(source: Source, peer: Peer, below: int) -> int:
    """The highest id not above `below` that has no album with items on both sides of it."""
    if below == 0:
        return 0
    # By a page and not by ids: whether those may be asked for now decides nothing about a first visit.
    page = await source.page_after(peer, max(0, below - MAX_ITEMS + 1), limit=2 * MAX_ITEMS)
    groups = {post.message_id: post.grouped_id for post in page.posts if post.grouped_id is not None}
    while cut := [
        message_id
        for message_id, group in groups.items()
        if message_id <= below and any(other > below and groups[other] == group for other in groups)
    ]:
        below = min(cut) - 1
    return below
