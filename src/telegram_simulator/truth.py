"""The truth about a world: everything that a perfect capture would hold, as JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from telegram_simulator.model import Channel, Entity, File, Message
from telegram_simulator.world import World


def truth_of(world: World, *, digests: bool = False) -> dict[str, Any]:
    """All channels with all their messages. `digests` adds each file's SHA-256, which draws every picture."""
    channels = [_channel(channel, digests=digests) for channel in world.channels.values()]
    return {
        "now": world.now().replace(microsecond=0).isoformat(),
        "users": [
            {"id": user.id, "first_name": user.first_name, "username": user.username, "phone": user.phone}
            for user in world.users.values()
        ],
        "channels": channels,
        "totals": {
            "channels": len(channels),
            "messages": sum(len(channel["messages"]) for channel in channels),
            "deleted": sum(len(channel["deleted"]) for channel in channels),
            "albums": sum(len(channel["albums"]) for channel in channels),
            "files": len(world.files),
        },
    }


def write_truth(world: World, path: Path, *, digests: bool = False) -> None:
    """Write the truth so that a reader finds the old file or the new one, never half of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8") as out:
            json.dump(truth_of(world, digests=digests), out, ensure_ascii=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _channel(channel: Channel, *, digests: bool) -> dict[str, Any]:
    return {
        "id": channel.id,
        "username": channel.username,
        "title": channel.title,
        "private": channel.private,
        "invite": channel.invite,
        "group": channel.group,
        "members": sorted(channel.members),
        "subscribers": channel.subscribers,
        "linked_id": channel.linked_id,
        "temper": channel.temper,
        "language": channel.language,
        "topic": channel.topic,
        "newest_id": channel.newest_id,
        "pts": channel.pts,
        "deleted": sorted(channel.deleted),  # ids that were never used are as empty, and no reader can tell them apart
        "withheld": sorted(channel.withheld),  # no reader can have these yet
        "albums": _albums(channel),
        "messages": [_message(message, digests=digests) for message in channel.messages.values()],
    }


def _albums(channel: Channel) -> dict[str, dict[str, list[int]]]:
    """Albums of which something is left: the ids that are there and those that were deleted."""
    albums: dict[int, dict[str, list[int]]] = defaultdict(lambda: {"ids": [], "deleted": []})
    for part, messages in (("ids", channel.messages), ("deleted", channel.deleted)):
        for message in messages.values():
            if message.grouped_id is not None:
                albums[message.grouped_id][part].append(message.id)
    return {str(grouped): {k: sorted(v) for k, v in ids.items()} for grouped, ids in albums.items() if ids["ids"]}


def _message(message: Message, *, digests: bool) -> dict[str, Any]:
    forward, poll, service = message.forward, message.poll, message.service
    return {
        "id": message.id,
        "date": message.date.isoformat(),
        "text": message.text,
        "entities": [_entity(entity) for entity in message.entities],
        "media": None if message.file is None else _media(message.file, digests=digests),
        "grouped_id": message.grouped_id,
        "forward": None
        if forward is None
        else {
            "channel_id": forward.channel_id,
            "message_id": forward.message_id,
            "date": forward.date.isoformat(),
            "author": forward.author,
        },
        "reply_to": message.reply_to,
        "comment_to": message.comment_to,
        "sender_id": message.sender_id,
        "poll": None if poll is None else {"id": poll.id, "question": poll.question, "answers": list(poll.answers)},
        "service": None if service is None else {"action": service.action, "title": service.title},
        "author": message.author,
        "edited": None if message.edited is None else message.edited.isoformat(),
        "versions": list(message.versions),
        "pinned": message.pinned,
        "story": message.story,
        "counters": {
            "views": message.counters.views,
            "forwards": message.counters.forwards,
            "replies": message.counters.replies,
            "reactions": dict(message.counters.reactions),
        },
    }


def _entity(entity: Entity) -> dict[str, Any]:
    return {"kind": entity.kind, "offset": entity.offset, "length": entity.length, "url": entity.url}


def _media(file: File, *, digests: bool) -> dict[str, Any]:
    return {
        "kind": file.kind.value,
        "id": file.id,
        "mime": file.mime,
        "name": file.name,
        "size": file.size,
        "width": file.width,
        "height": file.height,
        "sha256": hashlib.sha256(file.data).hexdigest() if digests else None,
    }
