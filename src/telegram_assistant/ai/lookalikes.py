"""A picture that was seen before in another size or quality is not looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from telegram_assistant.domain.models import Describer, Identity, Picture
from telegram_assistant.domain.pictures import Fingerprint, Known, Verdict, sharing
from telegram_assistant.domain.understanding import Seen, Usage


class Lookalikes(Protocol):
    """Results by fingerprint: those of `identity` that share one of `domain.pictures.bands`, nearest first, a few."""

    async def near(self, fingerprint: Fingerprint, identity: Identity) -> Sequence[Known]: ...


async def known_result(
    picture: Picture, mine: Fingerprint, known: Lookalikes, identity: Identity, *, reader: Describer | None = None
) -> Seen | None:
    """The result of a near-duplicate, if it holds for this picture too; it costs no tokens.

    `reader` is the local describer, where it is cheaper than that of `identity`: it compares what is written on both.
    """
    unread: list[Known] = []
    for candidate in await known.near(mine, identity):
        verdict = sharing(mine, candidate.fingerprint, candidate.seen)
        if verdict is Verdict.SHARE:
            return replace(candidate.seen, usage=Usage())
        if verdict is Verdict.READ_FIRST:
            unread.append(candidate)
    if not unread or reader is None:
        return None
    ocr = (await reader.describe(picture)).ocr
    for candidate in unread:
        if ocr and sharing(mine, candidate.fingerprint, candidate.seen, ocr.text) is Verdict.SHARE:
            return replace(candidate.seen, usage=Usage())
    return None
