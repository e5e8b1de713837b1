"""What can be told from a bot's token, without the library that talks to Telegram: it takes seconds to load."""

from __future__ import annotations

import hashlib
import hmac


def bot_id_of(token: str) -> int:
    """A token begins with the bot's id; 0 for what is no token."""
    number = token.partition(":")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 20 else 0


def webhook_secret(token: str, chosen: str | None) -> str:
    """What Telegram must send with each update. Without one of your own it follows from the token."""
    return chosen or hmac.new(token.encode(), b"webhook", hashlib.sha256).hexdigest()
