"""Configuration, users and takeout sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from telethon.tl import functions, types

from telegram_simulator.envelope import vector
from telegram_simulator.errors import RpcError
from telegram_simulator.model import Channel
from telegram_simulator.rpc.call import Call, Handlers

DATA_CENTRES = range(1, 6)
YES = bytes.fromhex("b5757299")  # boolTrue, of which Telethon has no class


def get_config(call: Call, _request: Any) -> Any:
    now = datetime.now(UTC)
    return types.Config(
        date=now,
        expires=now + timedelta(hours=1),
        test_mode=False,
        this_dc=call.on.dc_id,
        dc_options=[types.DcOption(dc, call.on.host, call.on.port) for dc in DATA_CENTRES],
        dc_txt_domain_name="",
        chat_size_max=200,
        megagroup_size_max=200_000,
        forwarded_count_max=100,
        online_update_period_ms=210_000,
        offline_blur_timeout_ms=5_000,
        offline_idle_timeout_ms=30_000,
        online_cloud_timeout_ms=300_000,
        notify_cloud_delay_ms=30_000,
        notify_default_delay_ms=1_500,
        push_chat_period_ms=60_000,
        push_chat_limit=2,
        edit_time_limit=172_800,
        revoke_time_limit=172_800,
        revoke_pm_time_limit=172_800,
        rating_e_decay=2_419_200,
        stickers_recent_limit=200,
        channels_read_media_period=604_800,
        call_receive_timeout_ms=20_000,
        call_ring_timeout_ms=90_000,
        call_connect_timeout_ms=30_000,
        call_packet_timeout_ms=10_000,
        me_url_prefix="https://t.me/",
        caption_length_max=1_024,
        message_length_max=4_096,
        webfile_dc_id=call.on.dc_id,
    )


def get_nearest_dc(call: Call, _request: Any) -> Any:
    return types.NearestDc("EU", call.on.dc_id, call.on.dc_id)


def get_users(call: Call, request: Any) -> bytes:
    me = call.me
    users = [call.user_of(one) for one in request.id]
    return vector([types.UserEmpty(0) if user is None else call.on.render.user(user, me) for user in users])


def get_full_user(call: Call, request: Any) -> Any:
    me, user = call.me, call.user_of(request.id)
    if user is None:
        raise RpcError(400, "USER_ID_INVALID")
    full = types.UserFull(user.id, types.PeerSettings(), types.PeerNotifySettings(), 0)
    return types.users.UserFull(full, [], [call.on.render.user(user, me)])


def resolve_username(call: Call, request: Any) -> Any:
    me = call.me
    found = call.on.world.by_username(request.username)
    if found is None:
        raise RpcError(400, "USERNAME_NOT_OCCUPIED")
    if isinstance(found, Channel):
        chats = [call.on.render.channel(found, me)]
        return types.contacts.ResolvedPeer(types.PeerChannel(found.id), chats, [])
    return types.contacts.ResolvedPeer(types.PeerUser(found.id), [], [call.on.render.user(found, me)])


def init_takeout(call: Call, _request: Any) -> Any:
    return types.account.Takeout(call.on.takeouts.begin(call.key_id, call.on.world.now()))


def finish_takeout(call: Call, _request: Any) -> bytes:
    call.on.takeouts.check(call.key_id, call.takeout)
    call.on.takeouts.finish(call.key_id)
    return YES


HANDLERS: Handlers = {
    functions.account.InitTakeoutSessionRequest: init_takeout,
    functions.account.FinishTakeoutSessionRequest: finish_takeout,
    functions.help.GetConfigRequest: get_config,
    functions.help.GetNearestDcRequest: get_nearest_dc,
    functions.users.GetUsersRequest: get_users,
    functions.users.GetFullUserRequest: get_full_user,
    functions.contacts.ResolveUsernameRequest: resolve_username,
}
