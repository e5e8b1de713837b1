"""`tga retag`: a manual request ends as `posts.tagged` with `trigger=manual` (SPEC 8)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from telegram_assistant.domain.events import Trigger
from telegram_assistant.domain.models import Identity, Tagged
from telegram_assistant.names import POSTS_PARSED, POSTS_RETAG, POSTS_TAGGED, RETAGGING
from telegram_assistant.stages.tagging import Tagging, retag_posts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import WEATHER, Desk, post
from tests.integration.stages.loop import run_stage

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported


class Model:
    """Stands where no model is needed."""

    identity = Identity("remote", "model")

    async def tag(self, text: str, seen: str = "") -> Tagged:
        return Tagged(tags=("погода", str(len(text) + len(seen))))


async def test_spec_8_a_manual_retag_from_the_command_line(tga: Tga, desk: Desk) -> None:
    await desk.save(post(1, WEATHER))
    await desk.told(POSTS_PARSED)
    printed = await tga("retag", "https://t.me/news/1")
    assert "1 posts are tagged again" in printed.out
    tagging = Tagging(Model(), desk.budgets, utc_now)
    handler = partial(retag_posts, tagging=tagging, stored_posts=desk.stored_posts, pictures=desk.pictures)
    await run_stage(desk, RETAGGING, {POSTS_RETAG: handler})
    [tagged] = await desk.told(POSTS_TAGGED)
    assert (tagged.post_id, tagged.trigger) == (post(1).id, Trigger.MANUAL)
    missing = await tga("retag", "https://t.me/news/99")
    assert missing.code == 1
    assert "not stored" in missing.out
