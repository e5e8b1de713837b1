"""An account that cannot listen costs the others nothing."""

from __future__ import annotations

from typing import Any

import pytest

from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.faults import Fault

pytestmark = pytest.mark.e2e

# Classes of conftest.py, which cannot be imported.
Town = Any
Store = Any
Capture = Any

OTHER = 1002


async def test_what_cannot_connect_does_not_have_everything_read_again(
    town: Town, store: Store, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AGAIN_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(f"telegram_assistant.ingest.live.{name}", 0.2)
    news = town.open("daily_news", 30)
    await store.watch(news)
    await capture.start(parser_scheduler_interval_sec=3600)
    await store.captured(news)
    broken = Fault("error", "users.getUsers", user=OTHER, code=500, message="INTERNAL")
    town.sim.faults.add(broken)
    accounts = TelegramAccounts(store.database, Sealer("of this test"))
    await accounts.add(telegram_user_id=OTHER, name="Bob", session=town.sim.session(OTHER))
    await store.until(lambda: town.sim.faults.count(broken) >= 1, "it tries to listen")
    asked = len(town.asked("messages.getHistory", news))
    await store.until(lambda: town.sim.faults.count(broken) >= 10, "it tries again and again")
    assert len(town.asked("messages.getHistory", news)) - asked <= 2
