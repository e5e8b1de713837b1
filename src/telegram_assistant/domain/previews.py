"""What a public preview and Telegram itself say of the same post: who is believed in what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telegram_assistant.domain.post import Counters

if TYPE_CHECKING:
    from collections.abc import Iterable

_COARSE = ((1_000_000, 100_000), (1_000, 100), (0, 1))  # a figure from here on is shown in such steps
_EMOJI_STYLE = "\N{VARIATION SELECTOR-16}"


def counted(known: Counters, shown: Counters) -> Counters:
    """Rounded figures beside known ones: what agrees stays exact, and what the page does not tell stays as it is."""
    before = dict(known.reactions)
    reactions = {name: _closer(before.get(name), count) or 0 for name, count in shown.reactions}
    return Counters.counted(
        views=_closer(known.views, shown.views),
        forwards=known.forwards if shown.forwards is None else shown.forwards,
        replies=known.replies if shown.replies is None else shown.replies,
        reactions=reactions or before,
    )


def _closer(known: int | None, shown: int | None) -> int | None:
    if known is None or shown is None:
        return known if shown is None else shown
    step = next(step for start, step in _COARSE if shown >= start)
    return known if -step / 2 <= known - shown < step else shown  # pages cut figures, or round them


def same_words(shown: Iterable[str], told: Iterable[str]) -> bool:
    """Whether all that a page shows of a post, or of an album, is what Telegram itself tells.

    Of several captions of an album a page shows one, and it may stand with another item.
    """
    return _plain(shown) <= _plain(told)


def _plain(texts: Iterable[str]) -> set[str]:
    return {words for text in texts if (words := " ".join(text.replace(_EMOJI_STYLE, "").split()))}
