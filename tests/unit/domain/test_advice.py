"""What to do about a channel that fails: by what the error says."""

from __future__ import annotations

import pytest

from telegram_assistant.domain.channel import SENTENCES, Advice, advise

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "error,advice",
    [
        (None, Advice.NOTHING),
        ("@x has no public preview: its owner switched it off; connect a Telegram account to read it", Advice.CONNECT),
        ("the public preview of @x cannot be understood: Telegram changed its pages", Advice.REPORT),
        ("the site of public previews asks to wait 30 s: it answers 429", Advice.WAIT),
        ("@x is a person or a bot, not a channel", Advice.CHECK_NAME),
        ("resolve: no channel has this name (USERNAME_NOT_OCCUPIED)", Advice.CHECK_NAME),
        ("resolve: nobody has this username (USERNAME_NOT_OCCUPIED)", Advice.CHECK_NAME),
        ("resolve: this invite link expired or never was (X)", Advice.CHECK_NAME),
        ("history: the channel is private, or this account was banned from it (X)", Advice.JOIN),
        ("history: this account's session is not valid any more: log in again with `tga login` (X)", Advice.ACCOUNT),
        ("history: Telegram asks to wait 31 s (FLOOD_WAIT)", Advice.WAIT),
        ("history: an answer of Telegram cannot be understood (X); a newer Telethon may help", Advice.REPORT),
        ("something new", Advice.WAIT),
    ],
)
def test_each_error_has_its_advice(error: str | None, advice: Advice) -> None:
    assert advise(error) is advice


def test_who_was_given_up_is_not_told_to_wait() -> None:
    assert advise("something new", given_up=True) is Advice.REVIVE
    assert advise(None, given_up=True) is Advice.REVIVE
    assert advise("the channel is private", given_up=True) is Advice.JOIN


def test_every_advice_has_its_sentence() -> None:
    assert set(SENTENCES) == set(Advice)
