"""What an account follows: its channels with their folders, and the channels of a shared folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from telethon.tl import functions, types

from telegram_assistant.domain.source import Followed, SourceError
from telegram_assistant.domain.text import clean_text
from telegram_assistant.source.telegram_channel import Account, channel_info

ON_A_PAGE = 100
MOST_PAGES = 30  # of dialogs; an account can follow at most 1,000 channels


async def followed_channels(account: Account) -> list[Followed]:
    """Those that the account has joined, groups too, each with the folders that name it."""
    folders = await _folders(account)
    chats: dict[int, Any] = {}
    request = functions.messages.GetDialogsRequest(None, 0, types.InputPeerEmpty(), ON_A_PAGE, 0)
    for _ in range(MOST_PAGES):
        answer = await account.ask(request)
        chats |= {chat.id: chat for chat in answer.chats}
        if not isinstance(answer, types.messages.DialogsSlice) or not (place := _place(answer, chats)):
            break
        request = functions.messages.GetDialogsRequest(*place, ON_A_PAGE, 0)
    return _listed(chats.values(), folders)


async def shared_channels(account: Account, slug: str) -> list[Followed]:
    """The channels of a t.me/addlist link."""
    answer = await account.ask(functions.chatlists.CheckChatlistInviteRequest(slug))
    title = getattr(answer, "title", None)
    name = clean_text(title.text) if title is not None else ""
    return _listed(answer.chats, {chat.id: [name] if name else [] for chat in answer.chats})


async def _folders(account: Account) -> dict[int, list[str]]:
    answer = await account.ask(functions.messages.GetDialogFiltersRequest())
    found: dict[int, list[str]] = {}
    for folder in answer.filters:
        if isinstance(folder, types.DialogFilter | types.DialogFilterChatlist):
            for peer in (*folder.pinned_peers, *folder.include_peers):
                if isinstance(peer, types.InputPeerChannel):
                    found.setdefault(peer.channel_id, []).append(clean_text(folder.title.text))
    return found


def _place(answer: Any, chats: dict[int, Any]) -> tuple[Any, int, Any] | None:
    """Where the next page begins: behind the last dialog that has a message."""
    dates = {(_peer_id(message.peer_id), message.id): message.date for message in answer.messages if message.peer_id}
    for dialog in reversed(answer.dialogs):
        peer_id = _peer_id(dialog.peer)
        date = dates.get((peer_id, dialog.top_message))
        if date is None:
            continue
        peer: Any = types.InputPeerEmpty()
        if isinstance(dialog.peer, types.PeerChannel) and peer_id in chats:
            peer = types.InputPeerChannel(peer_id, getattr(chats[peer_id], "access_hash", 0) or 0)
        return date, dialog.top_message, peer
    return None


def _peer_id(peer: Any) -> int:
    return int(next(value for name in ("channel_id", "chat_id", "user_id") if (value := getattr(peer, name, None))))


def _listed(chats: Iterable[Any], folders: dict[int, list[str]]) -> list[Followed]:
    found = []
    for chat in chats:
        try:
            info = channel_info(chat, "")
        except SourceError:
            continue  # a small group of the old kind, or one that the account was banned from
        found.append(Followed(info, tuple(dict.fromkeys(folders.get(info.id, ())))))
    return sorted(found, key=lambda one: one.info.title.casefold())
