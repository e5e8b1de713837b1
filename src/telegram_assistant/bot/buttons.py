"""Buttons under messages, and what comes back when one is pressed (64 bytes at most)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from aiogram.filters.callback_data import CallbackData
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup


class Go(CallbackData, prefix="go"):
    """A command without words, as a button."""

    to: str


class Page(CallbackData, prefix="s"):
    """A page of a search that is remembered."""

    token: str
    page: int


class Order(CallbackData, prefix="o"):
    """The same search, the other way round."""

    token: str


class Keep(CallbackData, prefix="k"):
    """Save a search, to be told of what is new."""

    token: str


class Channels(CallbackData, prefix="cs"):
    """A page of the channels."""

    page: int = 0


class Channel(CallbackData, prefix="c"):
    """Something to do with a channel."""

    do: str  # show | visit | posts | remove | sure
    id: int
    page: int = 0


class Watch(CallbackData, prefix="a"):
    """Watch a public channel."""

    name: str


class Wish(CallbackData, prefix="w"):
    """Take back the wish for a channel."""

    id: int


class Digest(CallbackData, prefix="d"):
    """Something to do with a digest; `at` is which issue, counted from the newest."""

    do: str  # show | now | on | off
    id: UUID
    at: int = 0


class Mute(CallbackData, prefix="m"):
    """Whether a saved search tells of what it finds."""

    id: UUID
    muted: bool


def button(text: str, data: CallbackData) -> InlineKeyboardButton:
    return InlineKeyboardButton(text=text, callback_data=data.pack())


def link_button(text: str, url: str) -> InlineKeyboardButton:
    return InlineKeyboardButton(text=text, url=url)


def rows(*given: Sequence[InlineKeyboardButton]) -> InlineKeyboardMarkup | None:
    """Empty rows are left out."""
    found = [list(row) for row in given if row]
    return InlineKeyboardMarkup(inline_keyboard=found) if found else None
