"""The menu: every command as a button."""

from __future__ import annotations

from markupsafe import Markup

from telegram_assistant.bot.buttons import Go, button, rows
from telegram_assistant.bot.talk import Talk

MENU = (("search", "ask"), ("digest", "trends"), ("channels", "add"), ("recommend", "subscription"))


async def welcome(talk: Talk, text: Markup) -> None:
    """Say something, with the menu under it."""
    say = talk.say
    keys = [[button(say.plain(f"button_{name}"), Go(to=name)) for name in row] for row in MENU]
    await talk.show(text, rows(*keys, [button(say.plain("button_language"), Go(to="language"))]))
