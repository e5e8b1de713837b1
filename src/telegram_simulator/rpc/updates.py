"""Catching up: the account's state and the differences of channels; and the updates that are pushed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from telethon.tl import functions, types

from telegram_simulator.errors import RpcError
from telegram_simulator.model import Change, Channel, User
from telegram_simulator.render import Rendered, Renderer
from telegram_simulator.rpc.call import Call, Handlers
from telegram_simulator.rpc.channels import dialog

TOO_LONG = 100  # more changes than this are not replayed: the client must read the history
_ACCOUNT_PTS = 1  # an account without private chats never moves, but 0 would mean "unknown" to a client


def _state(call: Call) -> Any:
    return types.updates.State(_ACCOUNT_PTS, 0, call.on.world.now(), 0, 0)


def get_state(call: Call, _request: Any) -> Any:
    return _state(call)


def get_difference(call: Call, request: Any) -> Any:
    """Nothing but a hint, for each joined channel with news, to ask for its own difference."""
    me = call.me
    fresh = [
        channel
        for channel in call.on.world.channels.values()
        if me.id in channel.members and call.on.index.changed_since(channel, request.date)
    ]
    if not fresh:
        return types.updates.DifferenceEmpty(call.on.world.now(), 0)
    hints = [types.UpdateChannelTooLong(channel.id, channel.pts) for channel in fresh]
    chats = [call.on.render.channel(channel, me) for channel in fresh]
    return types.updates.Difference([], [], hints, chats, [], _state(call))


def get_channel_difference(call: Call, request: Any) -> Any:
    channel = call.channel(request.channel)
    if request.pts < 1:
        raise RpcError(400, "PERSISTENT_TIMESTAMP_EMPTY")
    missed = channel.changes[bisect_right(channel.changes, request.pts, key=lambda change: change.pts) :]
    if not missed:
        return types.updates.ChannelDifferenceEmpty(channel.pts, final=True, timeout=30)
    if len(missed) > TOO_LONG:
        return _too_long(call, channel)
    part = missed[: max(1, request.limit)]
    return _difference(call, channel, part, final=len(part) == len(missed))


def _too_long(call: Call, channel: Channel) -> Any:
    newest = call.on.index.ids(channel)[-1:]
    rendered = [call.on.render.message(channel, channel.messages[i]) for i in newest]
    chats, users = call.on.render.around(rendered, call.me, channel)
    return types.updates.ChannelDifferenceTooLong(
        dialog(channel), [one.raw for one in rendered], chats, users, final=True, timeout=30
    )


def _difference(call: Call, channel: Channel, changes: Sequence[Change], *, final: bool) -> Any:
    """New messages as they are now, the last edit of each older one, and deletions."""
    render = call.on.render
    added = [i for change in changes if change.kind == "new" for i in change.ids if i in channel.messages]
    new = [render.message(channel, channel.messages[i]) for i in added]
    edits = {change.ids[0]: change for change in changes if change.kind == "edit" and change.ids[0] not in added}
    shown, others = list(new), []
    for change in changes:
        if change.kind != "delete" and edits.get(change.ids[0]) is not change:
            continue
        update, rendered = update_for(render, channel, change)
        if update is None:
            continue
        if call.on.diff_pts_mode == "zero":
            update.pts = update.pts_count = 0
        others.append(update)
        shown += rendered
    chats, users = render.around(shown, call.me, channel)
    return types.updates.ChannelDifference(
        pts=changes[-1].pts,
        new_messages=[one.raw for one in new],
        other_updates=others,
        chats=chats,
        users=users,
        final=final,
        timeout=30,
    )


def update_for(render: Renderer, channel: Channel, change: Change) -> tuple[Any, list[Rendered]]:
    """A change as an update; None for a message that is gone since, whose deletion will tell."""
    if change.kind == "delete":
        return types.UpdateDeleteChannelMessages(channel.id, list(change.ids), change.pts, change.count), []
    message = channel.messages.get(change.ids[0])
    if message is None:
        return None, []
    kind = types.UpdateNewChannelMessage if change.kind == "new" else types.UpdateEditChannelMessage
    rendered = render.message(channel, message)
    return kind(rendered.raw, change.pts, change.count), [rendered]


def push_for(render: Renderer, channel: Channel, change: Change, viewer: User, date: Any) -> Any:
    """A change as it is pushed to one user. It always carries the channel: clients forget it otherwise."""
    update, rendered = update_for(render, channel, change)
    if update is None:
        return None
    chats, users = render.around(rendered, viewer, channel)
    return types.Updates([update], users, chats, date, 0)


HANDLERS: Handlers = {
    functions.updates.GetStateRequest: get_state,
    functions.updates.GetDifferenceRequest: get_difference,
    functions.updates.GetChannelDifferenceRequest: get_channel_difference,
}
