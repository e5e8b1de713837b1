"""Storage by the API and on its page: usage over time, the quota, and files that come back on demand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from telegram_assistant.domain.storage import MEGABYTE
from telegram_assistant.http.web.page import size
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.media import REASON, Evictions
from telegram_assistant.stores.postgres.storage import Storage, Usage

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
Client = Callable[..., httpx.AsyncClient]
SHA = "ab" * 32


async def measured(services: Services, tenant: UUID, megabytes: int, *, hours_ago: int = 0) -> None:
    at = services.clock() - timedelta(hours=hours_ago)
    usage = [Usage("media", 3, megabytes * MEGABYTE), Usage("pages", 1, MEGABYTE), Usage("posts", 9, 5 * MEGABYTE)]
    await Storage(services.database).record(tenant, usage, at)


async def evicted(town: Town) -> UUID:
    post = await town.archive.post(1, "нефть")
    await town.archive.picture(post, SHA)
    await town.archive.run("UPDATE media_objects SET evicted_at = now(), size = 4096")
    await town.archive.run("UPDATE post_media SET status = 'evicted', file_id = 'f', reason = :why", why=REASON)
    return UUID(str(post))


async def test_usage_and_quota(client_of: Client, town: Town, services: Services) -> None:
    client, tenant = client_of(town.member), town.member.tenant_id
    assert (await client.get("/api/v1/storage/quota")).json()["standing"] == "ok"
    await measured(services, tenant, 50, hours_ago=6)
    await measured(services, tenant, 84)
    await Storage(services.database).set_quota(tenant, 100)
    quota = (await client.get("/api/v1/storage/quota")).json()
    assert (quota["megabytes"], quota["percent"], quota["standing"]) == (100, 85.0, "warning"), "posts do not count"
    history = (await client.get("/api/v1/storage/history")).json()["items"]
    assert [one["bytes"] for one in history if one["kind"] == "media"] == [50 * MEGABYTE, 84 * MEGABYTE]
    others = await client_of(town.other).get("/api/v1/storage/history")
    assert others.json() == {"items": []}
    assert (await client_of(town.other).get("/api/v1/storage/quota")).json()["megabytes"] == 0
    for days in ("0", "401", "x", "9" * 30):
        assert (await client.get("/api/v1/storage/history", params={"days": days})).status_code == 422


async def test_a_file_that_was_given_up_is_fetched_again(client_of: Client, town: Town) -> None:
    await evicted(town)
    client, other = client_of(town.member), client_of(town.other)
    [listed] = (await client.get("/api/v1/storage/evicted")).json()["items"]
    assert (listed["sha256"], listed["bytes"], listed["on_its_way"]) == (SHA, 4096, False)
    assert (await client.get(f"/api/v1/media/{SHA}")).status_code == 404
    assert (await other.get("/api/v1/storage/evicted")).json() == {"items": []}
    assert (await other.post(f"/api/v1/storage/evicted/{SHA}/fetch")).status_code == 404
    assert (await client.post(f"/api/v1/storage/evicted/{'0' * 64}/fetch")).status_code == 404
    assert (await client.post(f"/api/v1/storage/evicted/{SHA}/fetch")).status_code == 202
    [row] = await town.archive.rows("SELECT status, next_attempt_at FROM post_media")
    assert row.status == "pending"
    assert row.next_attempt_at is not None
    assert (await client.get("/api/v1/storage/evicted")).json()["items"][0]["on_its_way"] is True


async def test_opening_a_file_is_remembered(town: Town, services: Services) -> None:
    post = await town.archive.post(1, "нефть")
    await town.archive.picture(post, SHA)
    evictions = Evictions(services.database)
    await evictions.opened(SHA)
    [first] = await town.archive.rows("SELECT opened_at FROM media_objects")
    await evictions.opened(SHA)
    assert first.opened_at is not None
    assert await town.archive.rows("SELECT opened_at FROM media_objects") == [first], "once a day is enough"


@pytest.mark.parametrize("language", ["en", "ru"])
async def test_the_page(client_of: Client, town: Town, services: Services, language: str) -> None:
    client, tenant = client_of(town.member, page=True), town.member.tenant_id
    client.cookies.set("tga_language", language)
    for hours in range(0, 30 * 24, 6):
        await measured(services, tenant, 90 - hours // 12, hours_ago=hours)
    await Storage(services.database).set_quota(tenant, 80)
    post_id = await evicted(town)
    shown = (await client.get("/storage")).text
    assert 'class="notice bad"' in shown
    assert shown.count("<g>") == 60
    assert 'class="limit"' in shown
    assert f"/storage/evicted/{SHA}/fetch" in shown
    answer = await client.post(f"/storage/evicted/{SHA}/fetch")
    assert answer.status_code == 303
    assert f"/storage/evicted/{SHA}/fetch" not in (await client.get("/storage")).text
    post = await client.get(f"/posts/{post_id}")
    assert post.status_code == 200


async def test_whoever_looks_sees_what_is_stored_now(client_of: Client, town: Town, services: Services) -> None:
    """The job counts every six hours, and first before there is anything."""
    client, tenant = client_of(town.member, page=True), town.member.tenant_id
    await measured(services, tenant, 0, hours_ago=5)
    await evicted(town)  # a post with a file that was given up
    storage = Storage(services.database)
    shown = (await client.get("/storage")).text
    [*_, newest] = await storage.history(tenant, services.clock() - timedelta(hours=1))
    [posts] = [one.bytes for one in await storage.history(tenant, newest.at) if one.kind == "posts"]
    assert posts > 0
    assert f"{size(posts, language='en')}</span>" in shown
    await client.get("/storage")
    assert (await storage.history(tenant, services.clock() - timedelta(hours=1)))[-1] == newest  # not at every look


async def test_the_post_offers_to_fetch_it(client_of: Client, town: Town) -> None:
    post = await evicted(town)
    shown = (await client_of(town.member, page=True).get(f"/posts/{post}")).text
    assert f"/storage/evicted/{SHA}/fetch" in shown
    assert f"{SHA}/thumbnail" not in shown
