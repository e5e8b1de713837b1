"""The bot's own keys in Redis. What belongs to a person carries their id in its name, so that it goes with them."""

from __future__ import annotations

from uuid import UUID


def inbox(bot_id: int) -> str:
    """Updates that wait for an answer."""
    return f"bot:{bot_id}:inbox"


def in_work(bot_id: int) -> str:
    """Updates that are being answered; after a crash they go back."""
    return f"bot:{bot_id}:in_work"


def seen(bot_id: int, update_id: int) -> str:
    """An update that came before: Telegram sends one again when it is not sure that we have it."""
    return f"bot:{bot_id}:seen:{update_id}"


def holder(bot_id: int) -> str:
    """Which process speaks with Telegram for this bot."""
    return f"bot:{bot_id}:holder"


def alerts(bot_id: int) -> str:
    """Up to where alerts were told."""
    return f"bot:{bot_id}:alerts"


def username(bot_id: int) -> str:
    """How people find the bot, for the page that shows codes."""
    return f"bot:{bot_id}:username"


def code(digest: str) -> str:
    return f"bot:code:{digest}"


def code_of(user_id: UUID) -> str:
    """The code that a user has now: a new one replaces it."""
    return f"bot:code_of:{user_id}"


def person(user_id: UUID) -> str:
    """The language that a user speaks with the bot, and whether the bot is blocked."""
    return f"bot:person:{user_id}"


def expected(user_id: UUID) -> str:
    """The question that the next message of a user answers."""
    return f"bot:expected:{user_id}"


def search(user_id: UUID, token: str) -> str:
    """A search whose pages a user turns."""
    return f"bot:search:{user_id}:{token}"
