"""Two witnesses of one post, an account and the public preview: where they differ is told, not judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from telegram_assistant.domain.post import Post
from telegram_assistant.domain.previews import same_words

SETTLED = timedelta(hours=1)  # a page may be shown from a store for a while after an edit

Told = Mapping[int, Post | None]  # by id; None: proven not to exist. An id that is not there: nothing is known


class Differs(StrEnum):
    """In what."""

    TEXT = "text"
    ONLY_ACCOUNT = "only_account"  # the preview proves that the post is not there
    ONLY_PREVIEW = "only_preview"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One post of which the witnesses tell different things."""

    message_id: int
    kind: Differs
    account_text: str | None  # None: not there
    preview_text: str | None

    @property
    def digest(self) -> str:
        """The same for the same two texts: what was told before is known by it."""
        return sha256(repr((self.account_text, self.preview_text)).encode()).hexdigest()


def differences(account: Told, preview: Told, now: datetime) -> Iterator[Difference]:
    """Of every post that both told of, and that has not changed lately. Counters are no matter: a page rounds them."""
    for number in sorted(account.keys() & preview.keys()):
        told, shown = account[number], preview[number]
        if told is None and shown is None:
            continue
        if any(one is not None and _unsettled(one, now) for one in (told, shown)):
            continue
        if told is None or shown is None:
            kind = Differs.ONLY_PREVIEW if told is None else Differs.ONLY_ACCOUNT
            yield Difference(message_id=number, kind=kind, account_text=_text(told), preview_text=_text(shown))
        elif not _alike(told, shown, account, preview):
            yield Difference(message_id=number, kind=Differs.TEXT, account_text=told.text, preview_text=shown.text)


def _text(post: Post | None) -> str | None:
    return None if post is None else post.text


def _unsettled(post: Post, now: datetime) -> bool:
    return now - max(post.posted_at, post.edited_at or post.posted_at) < SETTLED


def _alike(told: Post, shown: Post, account: Told, preview: Told) -> bool:
    """Of an album the captions of all items together: a page puts one of them to its first item."""
    if told.service is not None or shown.service is not None or told.poll is not None:
        return (told.service is None) == (shown.service is None)  # each has its own words for it
    if told.grouped_id is None:
        return same_words([shown.text], [told.text]) and same_words([told.text], [shown.text])
    album = [number for number, post in account.items() if post is not None and post.grouped_id == told.grouped_id]
    texts = [post.text for number in album if (post := account[number]) is not None]
    seen = [post.text for number in album if (post := preview.get(number)) is not None]
    return same_words(seen, texts) and (any(text.strip() for text in seen) or not any(text.strip() for text in texts))
