"""Pause, resume and group: each tenant's own, for one channel and for many."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.source import ChannelInfo
from telegram_assistant.services.channels import Bulk
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.erasing import Erasing
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import NEWS, SPORT, SYSTEM

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
CHANNELS = "/api/v1/channels"


@pytest.fixture
def channels(town: Town) -> Channels:
    database: AsyncEngine = town.archive.database
    return Channels(database)


async def share_news(town: Town) -> None:
    await town.archive.run(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=town.other.tenant_id,
        user=town.other.user_id,
        channel=NEWS,
    )


async def many(client: Any, action: Bulk, *ids: int, **more: object) -> list[str | None]:
    answer = await client.post(f"{CHANNELS}/many", json={"ids": ids or [NEWS], "action": action.value, **more})
    assert answer.status_code == 200, answer.text
    return [one["error"] for one in answer.json()["items"]]


async def status(town: Town, channel: int = NEWS) -> str:
    """What capture goes by."""
    (row,) = await town.archive.rows("SELECT status FROM channels WHERE id = :id", id=channel)
    return str(row.status)


async def test_a_paused_channel_is_not_read_and_stays_in_view(
    town: Town, client_of: ClientOf, channels: Channels
) -> None:
    client = client_of(town.admin)
    await town.archive.post(1, "Oil prices rise")
    long_ago = utc_now() - timedelta(days=3)
    await town.archive.run(
        "UPDATE channels SET failures = 9, status = 'dead', last_error = 'asks to wait', promised_at = :at,"
        " last_success_at = :at, requested_from = 1, newest_id = 10, access_hash = '{\"a\": 1}' WHERE id = :id",
        id=NEWS,
        at=long_ago,
    )
    assert await many(client, Bulk.PAUSE, NEWS, 999) == [None, "There is no such channel"]
    assert await status(town) == "paused"
    shown = (await client.get(f"{CHANNELS}/{NEWS}")).json()
    assert (shown["status"], shown["failures"], shown["error"], shown["next_visit_at"]) == ("paused", 0, None, None)
    assert shown["paused_at"] is not None
    assert NEWS in [one["id"] for one in (await client.get(CHANNELS)).json()["items"]]
    now = utc_now()
    await channels.plan(now)
    await channels.look_again(now)
    assert NEWS not in [one.id for one in await channels.lease("us", limit=9, now=now, ttl=timedelta(minutes=1))]
    assert NEWS not in [one.id for one in await channels.with_holes(9)]
    assert NEWS not in [one.id for one in await channels.newest_posts()]
    assert NEWS not in [one.id for one in await channels.standings()]
    outcome = await channels.outcome(now, shown=9)
    assert "@daily_news" not in [one[0] for one in (*outcome.longest, *outcome.worst, *outcome.given_up)]
    assert NEWS not in [one.id for one in await WatchedPosts(town.archive.database).channels()]
    for path, body in (("parse", None), ("backfill", {"all": True})):
        refused = await client.post(f"{CHANNELS}/{NEWS}/{path}", json=body)
        assert (refused.status_code, "resume it first" in refused.text) == (409, True), path
    assert (await client.get(f"{CHANNELS}/{NEWS}/explain")).json()["why"] == "paused"
    assert (await client.get("/api/v1/search", params={"q": "oil"})).json()["items"]


async def test_a_resumed_channel_is_due_at_once_and_promised_anew(
    town: Town, client_of: ClientOf, channels: Channels
) -> None:
    client, before = client_of(town.admin), utc_now()
    marks = '{"1h": "2026-01-01T00:00:00+00:00", "changes": "2026-01-01T00:00:00+00:00", "7d": "2026-01-01T00:00:00Z"}'
    await town.archive.run(
        "UPDATE channels SET refreshed = CAST(:marks AS jsonb), promised_at = now() - interval '1 day',"
        " access_hash = '{\"a\": 1}' WHERE id = :id",
        id=NEWS,
        marks=marks,
    )
    await town.archive.run(
        "INSERT INTO channel_audits (channel_id, wanted_at, reason, next_at) VALUES (:id, now(), 'away', 'infinity')",
        id=NEWS,
    )
    await many(client, Bulk.PAUSE)
    since = (await client.get(f"{CHANNELS}/{NEWS}")).json()["paused_at"]
    await many(client, Bulk.PAUSE)
    assert (await client.get(f"{CHANNELS}/{NEWS}")).json()["paused_at"] == since, "since the first time"
    assert await many(client, Bulk.RESUME) == [None]
    found = await channels.get(NEWS)
    assert found is not None
    assert (found.status, list(found.refreshed)) == ("active", ["7d"])
    assert found.next_visit_at is not None
    assert before <= found.next_visit_at <= utc_now()
    assert (await channels.outcome(utc_now(), shown=9)).overdue == 0
    (audit,) = await town.archive.rows("SELECT next_at FROM channel_audits")
    assert audit.next_at <= utc_now()
    assert await many(client, Bulk.RESUME) == [None], "what is not paused stays as it is"
    log = await town.archive.rows("SELECT action FROM audit_log WHERE action LIKE 'channel_%' ORDER BY id")
    assert [one.action for one in log] == ["channel_paused"] * 2 + ["channel_resumed"] * 2


async def test_one_tenants_pause_stops_no_other(town: Town, client_of: ClientOf, channels: Channels) -> None:
    ours, theirs = client_of(town.admin), client_of(town.other)
    await share_news(town)
    await many(ours, Bulk.PAUSE)
    assert await status(town) == "active"
    assert (await ours.get(f"{CHANNELS}/{NEWS}")).json()["status"] == "paused"
    assert (await theirs.get(f"{CHANNELS}/{NEWS}")).json()["status"] == "active"
    await many(theirs, Bulk.PAUSE)
    assert await status(town) == "paused"
    await many(ours, Bulk.REVIVE)
    assert await status(town) == "active", "who wants it tried again has it read"
    await many(ours, Bulk.PAUSE)
    assert await status(town) == "paused"
    await many(theirs, Bulk.REMOVE)
    assert await status(town) == "paused", "all who are left have paused it"
    await many(ours, Bulk.REMOVE)
    assert await status(town) == "removed"
    for channel in (SPORT, NEWS):
        assert [one.id for one in await channels.all() if one.id == channel] == ([SPORT] if channel == SPORT else [])


async def test_what_only_an_erased_tenant_wanted_is_not_read_any_more(town: Town, client_of: ClientOf) -> None:
    await share_news(town)
    await many(client_of(town.admin), Bulk.PAUSE)
    erasing = Erasing(town.archive.database)
    await erasing.remove_tenant(await erasing.belongings(town.other.tenant_id))
    assert await status(town) == "paused"


@pytest.mark.parametrize("listed", [False, True], ids=["one", "list"])
async def test_adding_a_paused_channel_again_resumes_it(town: Town, client_of: ClientOf, listed: bool) -> None:
    client, requests = client_of(town.admin), Requests(town.archive.database)
    await many(client, Bulk.PAUSE)
    if listed:
        answer = await client.post(f"{CHANNELS}/list", json={"text": "reference,group\n@daily_news,papers"})
        assert [one["outcome"] for one in answer.json()["items"]] == ["added"]
    else:
        assert (await client.post(CHANNELS, json={"reference": "@daily_news"})).status_code == 202
    (wish,) = await requests.open()
    info = ChannelInfo(id=NEWS, title="News", username="daily_news", access_hash=1, is_private=False)
    await requests.fulfil(wish, info, "a", utc_now())
    assert await status(town) == "active"
    shown = (await client.get(f"{CHANNELS}/{NEWS}")).json()
    assert (shown["status"], shown["group"]) == ("active", "papers" if listed else "")


async def test_groups_are_each_tenants_own(town: Town, client_of: ClientOf) -> None:
    ours, theirs = client_of(town.admin), client_of(town.other)
    await share_news(town)

    async def of(client: Any, group: str) -> list[int]:
        return [one["id"] for one in (await client.get(CHANNELS, params={"group": group})).json()["items"]]

    assert await many(ours, Bulk.GROUP, NEWS, SPORT, group="  the\n papers ") == [None, None]
    assert sorted(await of(ours, "the papers")) == sorted([NEWS, SPORT])
    assert await of(theirs, "the papers") == []
    assert (await theirs.get(f"{CHANNELS}/{NEWS}")).json()["group"] == ""
    assert "the papers" not in (await client_of(town.other, page=True).get("/channels")).text
    assert (await ours.patch(f"{CHANNELS}/{SPORT}", json={"group": ""})).json()["group"] == ""
    assert await of(ours, "the papers") == [NEWS]
    opml = (await ours.get(f"{CHANNELS}/export", params={"format": "opml"})).text
    assert '<outline text="the papers">\n      <outline type="link"' in opml
    assert ",the papers\n" in (await ours.get(f"{CHANNELS}/export", params={"format": "csv"})).text
    assert "the papers" not in (await theirs.get(f"{CHANNELS}/export", params={"format": "opml"})).text
    missing = await ours.post(f"{CHANNELS}/many", json={"ids": [NEWS], "action": "group"})
    assert (missing.status_code, "which group" in missing.text) == (422, True)


async def test_the_pages_pause_resume_and_group(town: Town, client_of: ClientOf) -> None:
    page, member = client_of(town.admin, page=True), client_of(town.member, page=True)
    ticked = {"channel": [str(NEWS), str(SPORT)]}
    assert "2 channels changed" in (await page.post("/channels/many", data={"action": "pause", **ticked})).text
    assert "paused since" in (await page.get("/channels/list")).text
    shown = (await page.get(f"/channels/{NEWS}")).text
    assert "paused since" in shown
    assert f'action="/channels/{NEWS}/resume"' in shown
    assert "Visit now" not in shown
    data = {"action": "group", "group": "papers", **ticked}
    assert '<span class="badge">papers</span>' in (await page.post("/channels/many", data=data)).text
    for path in ("/channels", "/channels/list", "/channels/many"):
        assert f"{NEWS}" in (await page.get(path, params={"group": "papers"})).text, path
        assert "daily_news" not in (await page.get(path, params={"group": "others"})).text, path
    assert (await page.post(f"/channels/{NEWS}/resume")).status_code == 303
    assert (await page.post(f"/channels/{SPORT}/pause")).status_code == 303
    assert (await status(town), await status(town, SPORT)) == ("active", "paused")
    change = {"priority": "1", "timezone": "UTC", "group": "one paper"}
    assert (await page.post(f"/channels/{NEWS}/change", data=change)).status_code == 303
    rows = await town.archive.rows("SELECT group_name FROM channel_settings WHERE tenant_id = :t", t=SYSTEM)
    assert {row.group_name for row in rows} == {"papers", "one paper"}
    for path in ("pause", "resume"):
        assert (await member.post(f"/channels/{NEWS}/{path}")).status_code == 403
    assert (
        await client_of(town.member).post(f"{CHANNELS}/many", json={"ids": [1], "action": "pause"})
    ).status_code == 403
