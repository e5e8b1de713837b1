"""What is told: edits and deletions of watched posts, channels in trouble, quotas; each once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.domain.alerting import MOST_WATCHED, NoticeState, Topic, Way
from telegram_assistant.errors import Reject
from telegram_assistant.stores.postgres.storage import Storage, Usage
from tests.integration.search.archive import NEWS, SYSTEM

pytestmark = pytest.mark.integration

Office = Any  # of conftest.py, which cannot be imported


async def test_an_edit_is_told_with_what_changed(office: Office) -> None:
    await office.place(Way.SLACK)
    post = await office.archive.post(1, "Цена нефти выросла до 80 долларов за баррель")
    await office.archive.post(2, "Другой пост")
    await office.watch(post)
    await office.round()
    assert office.world.slack == []
    await office.edit(post, "Цена нефти упала до 70 долларов за баррель")
    await office.round()
    await office.round()
    [message] = office.world.slack
    section = next(block for block in message["blocks"] if block["type"] == "section")
    assert section["text"]["text"] == "Цена нефти [-выросла-] {+упала+} до [-80-] {+70+} долларов за баррель"
    [notice] = await office.notices()
    assert notice.content["code"] == "edited"
    assert notice.state is NoticeState.TOLD
    await office.edit(post, "Цена нефти упала")
    await office.archive.run("UPDATE posts SET deleted_at = now() WHERE id = :id", id=post)
    await office.round()
    assert [one.content["code"] for one in await office.notices()] == ["deleted", "edited"]
    assert "was deleted" in office.world.slack[-1]["text"]
    assert await office.alerting.watch.notices.unread(SYSTEM, office.user) == 2
    assert await office.alerting.watch.notices.read(SYSTEM, office.user) == 2
    assert await office.alerting.watch.notices.unread(SYSTEM, office.user) == 0


async def test_a_post_whose_row_is_gone_was_deleted(office: Office) -> None:
    post = await office.archive.post(1, "нефть")
    await office.watch(post)
    await office.archive.run("DELETE FROM posts WHERE id = :id", id=post)
    await office.round()
    await office.round()
    [notice] = await office.notices()
    assert notice.content["code"] == "deleted"
    assert "нефть" not in str(notice.content), "what was deleted is not repeated"


async def test_several_watchers_make_one_message(office: Office) -> None:
    await office.place(Way.SLACK)
    await office.place(Way.WEBHOOK)
    post = await office.archive.post(1, "нефть")
    await office.watch(post)
    other = UUID(int=77)
    await office.archive.run(
        "INSERT INTO users (id, tenant_id, name, role) VALUES (:id, :tenant, 'b', 'member')", id=other, tenant=SYSTEM
    )
    await office.alerting.watch.posts.watch(SYSTEM, other, post)
    await office.edit(post, "газ")
    await office.round()
    assert len(office.world.slack) == 1
    assert len(await office.notices()) == 1
    assert len(await office.alerting.watch.notices.of_user(SYSTEM, other, limit=9)) == 1
    [hook] = office.world.hooks
    assert (hook["topic"], hook["action"]) == ("post", "trigger")


async def test_what_is_not_seen_is_neither_watched_nor_told(office: Office) -> None:
    ann = await office.archive.tenant("ann")
    await office.archive.channel(7, "of_ann", ann, owner=ann)
    secret = await office.archive.post(1, "секрет", channel=7)
    watched = office.alerting.watch.posts
    assert not await watched.watch(SYSTEM, office.user, secret)
    assert not await watched.watch(SYSTEM, office.user, UUID(int=5))
    post = await office.archive.post(1, "нефть")
    await office.watch(post)
    await office.archive.run("DELETE FROM subscriptions WHERE channel_id = :id", id=NEWS)
    await office.edit(post, "газ")
    await office.round()
    assert await office.notices() == []


async def test_not_more_posts_than_allowed_are_watched(office: Office) -> None:
    await office.archive.run(
        "INSERT INTO watched_posts (user_id, post_id, tenant_id, deleted)"
        " SELECT :user, gen_random_uuid(), :tenant, true FROM generate_series(1, :most)",
        user=office.user,
        tenant=SYSTEM,
        most=MOST_WATCHED,
    )
    post = await office.archive.post(1, "нефть")
    with pytest.raises(Reject, match="stop watching one"):
        await office.watch(post)


async def test_a_channel_that_fails_for_long_is_told_once_and_again_only_after_it_was_well(office: Office) -> None:
    await office.place(Way.PAGERDUTY)
    await office.place(Way.SLACK)
    fail = "UPDATE channels SET failures = 3, last_error = 'FloodWait', last_success_at = now() - interval '{} hours'"
    await office.archive.run(fail.format(1) + " WHERE id = 100")
    await office.round()
    assert office.world.pagerduty == []
    await office.archive.run(fail.format(7) + " WHERE id = 100")
    for _ in range(3):
        await office.round()
    [event] = office.world.pagerduty
    assert event["event_action"] == "trigger"
    assert event["payload"]["severity"] == "error"
    assert "Daily_News cannot be read since" in event["payload"]["summary"]
    assert len(office.world.incidents) == 1
    await office.archive.run("UPDATE channels SET failures = 0, last_success_at = now() WHERE id = 100")
    await office.round()
    await office.round()
    assert [one["event_action"] for one in office.world.pagerduty] == ["trigger", "resolve"]
    assert office.world.incidents == set()
    assert [one["text"].rpartition(" ")[2] for one in office.world.slack][-1] == "again"
    [notice] = await office.notices()
    assert notice.state is NoticeState.RESOLVED
    await office.archive.run("UPDATE channels SET status = 'dead', last_error = 'CHANNEL_PRIVATE' WHERE id = 100")
    await office.round()
    assert [one["event_action"] for one in office.world.pagerduty] == ["trigger", "resolve", "trigger"]
    assert len(office.world.incidents) == 1
    assert "cannot be read any more" in office.world.pagerduty[-1]["payload"]["summary"]


async def test_messages_that_stay_unknown_are_told_unless_it_gets_better(office: Office) -> None:
    set_to = "UPDATE channels SET requested_from = 1, newest_id = 100, coverage = int8multirange(int8range(1, :known))"
    await office.archive.run(set_to + " WHERE id = 100", known=50)
    await office.round()
    await office.pass_by(hours=5)
    await office.archive.run(set_to + " WHERE id = 100", known=60)
    await office.round()
    await office.pass_by(hours=5)
    await office.round()
    assert await office.notices() == [], "they were on their way five hours ago"
    await office.pass_by(hours=2)
    await office.round()
    [notice] = await office.notices()
    assert (notice.content["code"], notice.content["unknown"]) == ("holes", 41)
    await office.archive.run(set_to + " WHERE id = 100", known=101)
    await office.round()
    [notice] = await office.notices()
    assert notice.state is NoticeState.RESOLVED


async def test_each_tenant_hears_of_its_own_channels(office: Office) -> None:
    ann = await office.archive.tenant("ann")
    await office.archive.channel(7, "of_ann", ann, owner=ann)
    await office.archive.run("UPDATE channels SET status = 'dead' WHERE id = 7")
    await office.round()
    assert await office.notices() == []
    [hers] = await office.alerting.watch.notices.of_user(ann, office.archive.users[ann], limit=9)
    assert hers.content["channel_id"] == 7


async def test_a_quota_that_is_nearly_used_up_is_told(office: Office) -> None:
    await office.place(Way.PAGERDUTY, Topic.STORAGE)
    storage = Storage(office.archive.database)
    await storage.set_quota(SYSTEM, 100)
    for used, incidents in ((79, 0), (81, 1), (100, 2), (90, 1), (10, 0)):
        await storage.record(SYSTEM, [Usage("media", 1, used * 1_000_000)], office.now())
        await office.pass_by(seconds=1)
        await office.round()
        await office.round()
        assert len(office.world.incidents) == incidents, used
    assert len(office.world.pagerduty) == 4
