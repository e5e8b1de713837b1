"""A group that hides what was said before an account joined, and content that may not be saved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.model import Ids

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any
Machine = Any
READER, OTHER = 1001, 1002


async def visited(store: Store, channel: Any) -> None:
    async def once() -> bool:
        row = await store.row(channel)
        return row is not None and row.last_success_at is not None

    await store.until(once, "the first visit")


@pytest.mark.parametrize("ids", list(Ids))
async def test_n22_hidden_history_is_hidden_and_not_empty_and_is_read_by_who_sees_it(
    town: Town, store: Store, capture: Capture
) -> None:
    club = town.open("the_club", 30, over=timedelta(days=20), group=True, members={READER, OTHER})
    town.open("other_one", 40)
    for _ in range(3):
        town.say(club)
    numbers = list(club.messages)
    border = numbers[19]
    club.hidden[READER] = border
    await store.watch(club)
    runtime = await capture.start()
    await visited(store, club)
    await store.change("UPDATE channels SET history_from = '2013-01-01Z'")

    async def all_that_is_shown() -> bool:
        row, ledger = await store.row(club), await store.ledger(club)
        return row.history_from is None and not ledger.unknown and ledger.captured == len(numbers) - 20

    await store.until(all_that_is_shown, "what is shown is known", 120)
    ledger = await store.ledger(club)
    assert ledger.coverage.intersection(type(ledger.coverage).of_spans((1, border + 1))).is_empty
    assert (ledger.hidden_up_to, ledger.hidden, ledger.not_requested) == (border, border, 0)
    assert ledger.captured + ledger.empty + ledger.hidden == ledger.newest_id == club.newest_id

    accounts = TelegramAccounts(runtime.database, Sealer("of this test"))
    added = await accounts.add(telegram_user_id=OTHER, name="Bob", session=town.sim.session(OTHER))
    await accounts.remember_hash(added.id, club.id, club.access_hash)
    await store.captured(club)
    ledger = await store.ledger(club)
    assert (ledger.hidden_up_to, ledger.hidden, ledger.unknown, ledger.not_requested) == (0, 0, 0, 0)
    assert ledger.captured == len(numbers)


@pytest.mark.parametrize("enabled,status", [(True, "stored"), (False, "skipped")])
async def test_n22_protected_content_is_told_and_a_setting_decides_about_its_files(
    town: Town, store: Store, capture: Capture, make_photo: Any, *, enabled: bool, status: str
) -> None:
    strict, open_one = town.open("strict_one", 1), town.open("open_one", 1)
    strict.protected = True
    for channel, number, protected in ((strict, 1, False), (open_one, 2, True), (open_one, 3, False)):
        town.say(channel, file=make_photo(number), protected=protected)
    await store.watch(strict, open_one)
    await capture.start(media_protected_enabled=enabled)
    await store.captured(strict, open_one)

    async def settled() -> list[Any]:
        rows = await store.rows(
            "SELECT channel_id, details ->> 'protected' AS protected, m.status, m.reason FROM posts"
            " JOIN post_media m ON m.post_id = posts.id ORDER BY channel_id, message_id"
        )
        return [] if len(rows) < 3 or any(row.status == "pending" for row in rows) else rows

    rows = await store.until(settled, "every file is settled")
    assert [(row.protected, row.status) for row in rows] == [(None, status), ("true", status), (None, "stored")]
    assert enabled or "MEDIA_PROTECTED_ENABLED" in rows[0].reason

    async def told() -> bool:
        return bool((await store.row(strict)).protected)

    await store.until(told, "the channel is known to be protected")
    assert not (await store.row(open_one)).protected
