"""What somebody can do about a channel that cannot be read."""

from __future__ import annotations

from enum import StrEnum


class Advice(StrEnum):
    """Each is a sentence in the API, and a text of the page in two languages."""

    NOTHING = "nothing"
    WAIT = "wait"
    CHECK_NAME = "check_name"
    JOIN = "join"
    ACCOUNT = "account"
    REVIVE = "revive"
    REPORT = "report"


SENTENCES = {
    Advice.NOTHING: "",
    Advice.WAIT: "Nothing to do: it is tried again by itself.",
    Advice.CHECK_NAME: "Check the name or the link: nobody at Telegram has it. Remove it here and add the right one.",
    Advice.JOIN: "It is private: join it with the Telegram account that reads here, or remove it.",
    Advice.ACCOUNT: "The Telegram account cannot be used: log in again with tga login.",
    Advice.REVIVE: "It was given up after many failures: an admin can have it tried again.",
    Advice.REPORT: "Telegram answers in a way that is not understood: look for a newer version, or into the log.",
}

# Said by source/telegram_errors.py, the only place that speaks of Telegram's errors.
_SIGNS = (
    (Advice.ACCOUNT, ("tga login", "account was deleted", "froze this account", "no account", "another data centre")),
    (Advice.JOIN, ("is private", "may not read", "banned from it")),
    (Advice.CHECK_NAME, ("has this name", "can have this name", "invite link", "channel is gone")),
    (Advice.CHECK_NAME, ("nobody has this username", "cannot be a username")),  # as earlier versions said it
    (Advice.WAIT, ("asks to wait", "no answer in time", "connection", "trouble inside")),
    (Advice.REPORT, ("cannot be understood", "refused it")),
)


def advise(error: str | None, *, given_up: bool = False) -> Advice:
    """By what the error says; whoever was given up is tried again only when somebody asks."""
    if not error:
        return Advice.REVIVE if given_up else Advice.NOTHING
    found = next((advice for advice, signs in _SIGNS if any(sign in error for sign in signs)), Advice.WAIT)
    return Advice.REVIVE if given_up and found is Advice.WAIT else found
