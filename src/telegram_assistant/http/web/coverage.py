"""What is known of a channel's message ids, drawn as a strip and said in few words."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from telegram_assistant.domain.ledger import LedgerState

WIDTH, HEIGHT = 1000.0, 22.0
LEAST = 2.0  # a hole of one id among a million is to be seen
MOST_PARTS = 400


def coverage_strip(state: LedgerState, *, label: str) -> Markup:
    """From the first id to the newest: known, unknown, and what nobody asked for."""
    if not state.newest_id:
        return Markup("")
    parts = Markup("").join(
        Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="{:.0f}"><title>{}</title></rect>').format(
            kind, x, width, HEIGHT, f"{first:,}-{last:,}"
        )
        for kind, x, width, first, last in _parts(state)
    )
    return Markup(
        '<svg class="strip" viewBox="0 0 {:.0f} {:.0f}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="never" x="0" y="0" width="{:.0f}" height="{:.0f}"/>{}</svg>'
    ).format(WIDTH, HEIGHT, label, WIDTH, HEIGHT, parts)


def _parts(state: LedgerState) -> Iterator[tuple[str, float, float, int, int]]:
    """The known first: what is unknown is drawn over it, and never too thin to see."""
    scale = WIDTH / state.newest_id
    for kind, least, ranges in (("known", 0.0, state.coverage), ("unknown", LEAST, state.gaps)):
        for start, stop in ranges.ranges[:MOST_PARTS]:
            first, last = max(1, start), min(stop - 1, state.newest_id)
            if first <= last:
                x = (first - 1) * scale
                width = max(least, (last + 1 - first) * scale)
                yield kind, min(x, WIDTH - width), width, first, last
