"""Names of channels in every way people write them, and what to do about a channel that cannot be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, parse_qs, urlsplit

# Telegram marks channel ids as -(10^12 + id); bare ids end here, so the two forms never meet.
_MARK = 10**12
MAX_CHANNEL_ID = 997_852_516_352

_HOSTS = frozenset({"t.me", "telegram.me", "telegram.dog"})
_USERNAME = re.compile(r"[a-z](?:_?[a-z0-9])+")
_INVITE = re.compile(r"[A-Za-z0-9_-]{10,64}")
_NUMBER = re.compile(r"[+-]?[0-9]+")
# First parts of addresses that look like usernames and are something else.
_RESERVED = re.compile(
    "addemoji|addlist|addstickers|addtheme|boost|call|confirmphone|contact|giftcode|invoice|joinchat|login|proxy|"
    "setlanguage|share|socks"
)
ACCEPTED = (
    "accepted are @name, name, https://t.me/name, https://t.me/s/name, https://t.me/c/1234567890/45, "
    "https://t.me/+invite, https://t.me/joinchat/invite, tg://resolve?domain=name, "
    "and ids like 1234567890 or -1001234567890"
)


@dataclass(frozen=True, slots=True)
class ChannelRef:
    """What a person calls a channel: exactly one of username, id and invite hash."""

    username: str | None = None  # lower case, without @
    channel_id: int | None = None  # bare
    invite: str | None = None  # case matters

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.username, self.channel_id, self.invite)) != 1:
            raise ValueError(f"a channel is named by exactly one of username, id and invite: {self!r}")

    def __str__(self) -> str:
        """In a form that `parse_ref` reads."""
        if self.username is not None:
            return f"@{self.username}"
        if self.channel_id is not None:
            return str(marked_id(self.channel_id))
        return f"https://t.me/+{self.invite}"


def bare_id(any_id: int) -> int:
    """The canonical id of a channel given with or without Telegram's -100 mark."""
    if 0 < any_id <= MAX_CHANNEL_ID:
        return any_id
    if -_MARK - MAX_CHANNEL_ID <= any_id < -_MARK:
        return -any_id - _MARK
    raise ValueError(f"{any_id} is not a channel's id: those are like 1234567890, or -1001234567890 with the mark")


def marked_id(channel_id: int) -> int:
    """The id with Telegram's -100 mark."""
    if not 0 < channel_id <= MAX_CHANNEL_ID:
        raise ValueError(f"{channel_id} is not a bare channel id")
    return -_MARK - channel_id


def canonical_username(name: str) -> str:
    """Lower case, without @. Raises ValueError for what cannot be a username."""
    username = name.strip().removeprefix("@")
    # Checked for ASCII first: some letters of other scripts become a Latin one in lower case.
    if username.isascii():
        username = username.lower()
        if 4 <= len(username) <= 32 and _USERNAME.fullmatch(username):
            return username
    raise ValueError(f"{name!r} is not a channel's username; {ACCEPTED}")


def parse_ref(text: str) -> ChannelRef:
    """What channel is meant, from any of the forms in `ACCEPTED`. Raises ValueError that names them."""
    words = text.split()
    if len(words) != 1:
        raise ValueError(f"{text!r} does not name one channel; {ACCEPTED}")
    word = words[0]
    if _NUMBER.fullmatch(word):
        return ChannelRef(channel_id=bare_id(int(word)))
    if "://" not in word and "/" not in word and "." not in word:
        return ChannelRef(username=canonical_username(word))
    try:
        address = urlsplit(word if "://" in word else f"https://{word}")
        ref = _from_tg(address) if address.scheme == "tg" else _from_web(address)
    except ValueError as error:
        raise ValueError(f"{text!r} does not name a channel ({error})") from error
    if ref is None:
        raise ValueError(f"{text!r} does not name a channel; {ACCEPTED}")
    return ref


def _from_tg(address: SplitResult) -> ChannelRef | None:
    query = {key: values[0] for key, values in parse_qs(address.query).items()}
    match address.netloc.lower():
        case "resolve" if "domain" in query:
            return ChannelRef(username=canonical_username(query["domain"]))
        case "join" if "invite" in query:
            return _invite(query["invite"])
        case "privatepost" if _is_plain_id(query.get("channel", "")):
            return ChannelRef(channel_id=bare_id(int(query["channel"])))
        case _:
            return None


def _from_web(address: SplitResult) -> ChannelRef | None:
    host = (address.hostname or "").removeprefix("www.")
    parts = [part for part in address.path.split("/") if part]
    if host.endswith(".t.me"):
        host, parts = "t.me", [host.removesuffix(".t.me")]
    if host not in _HOSTS or address.scheme not in {"http", "https"}:
        return None
    match parts:
        case ["c", number, *_] if _is_plain_id(number):
            return ChannelRef(channel_id=bare_id(int(number)))
        case ["joinchat", invite]:
            return _invite(invite)
        case [first] if first.startswith("+"):
            return _invite(first[1:])
        case ["s", name, *_] | [name, *_] if not _RESERVED.fullmatch(name.lower()):
            return ChannelRef(username=canonical_username(name))
        case _:
            return None


def _invite(text: str) -> ChannelRef | None:
    # Only digits after the plus are a phone number.
    if _INVITE.fullmatch(text) is None or text.isdigit():
        return None
    return ChannelRef(invite=text)


def _is_plain_id(text: str) -> bool:
    return text.isascii() and text.isdigit()


class Advice(StrEnum):
    """Each is a sentence in the API, and a text of the page in two languages."""

    NOTHING = "nothing"
    WAIT = "wait"
    CHECK_NAME = "check_name"
    JOIN = "join"
    ACCOUNT = "account"
    CONNECT = "connect"
    REVIVE = "revive"
    REPORT = "report"


SENTENCES = {
    Advice.NOTHING: "",
    Advice.WAIT: "Nothing to do: it is tried again by itself.",
    Advice.CHECK_NAME: "Check the name or the link: Telegram does not know it. Remove it here and add the right one.",
    Advice.JOIN: "It is private: join it with the Telegram account that reads here, or remove it.",
    Advice.ACCOUNT: "The Telegram account cannot be used: log in again with tga login.",
    Advice.CONNECT: "Its public preview cannot be read: connect a Telegram account with tga login, or remove it.",
    Advice.REVIVE: "It was given up after many failures: an admin can have it tried again.",
    Advice.REPORT: "Telegram answers in a way that is not understood: look for a newer version, or into the log.",
}

# Said by source/telegram_errors.py and source/preview_page.py, the only places that speak of Telegram's errors.
_SIGNS = (
    (Advice.CONNECT, ("connect a Telegram account", "shows no posts yet")),
    (Advice.ACCOUNT, ("tga login", "account was deleted", "froze this account", "no account", "another data centre")),
    (Advice.JOIN, ("is private", "may not read", "banned from it")),
    (Advice.CHECK_NAME, ("has this name", "can have this name", "invite link", "channel is gone", "a person or a bot")),
    (Advice.CHECK_NAME, ("nobody has this username", "cannot be a username")),  # as earlier versions said it
    (Advice.WAIT, ("asks to wait", "no answer in time", "connection", "trouble inside")),
    (Advice.REPORT, ("cannot be understood", "refused it")),
)


def advise(error: str | None, *, given_up: bool = False) -> Advice:
    """By what the error says. A channel that was given up is tried again only on request."""
    if not error:
        return Advice.REVIVE if given_up else Advice.NOTHING
    found = next((advice for advice, signs in _SIGNS if any(sign in error for sign in signs)), Advice.WAIT)
    return Advice.REVIVE if given_up and found is Advice.WAIT else found
