"""A channel's difference: what changed since a count, in our terms."""

from __future__ import annotations

from typing import Any

from telethon.tl import types

from telegram_assistant.domain.source import Changes
from telegram_assistant.source.telegram_messages import names_of, post_of


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
