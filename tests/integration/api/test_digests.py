"""Digests through the API and on pages: asked for, changed, previewed, read with receipts, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest

from telegram_assistant.domain.digests import MOST_DIGESTS
from telegram_assistant.jobs.digests import DigestJob, open_digest_maker
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from tests.integration.search.archive import POSTED

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Callable[..., httpx.AsyncClient]
DIGESTS = "/api/v1/digests"
ATOM = "{http://www.w3.org/2005/Atom}"
RATE = "Банк России поднял ключевую ставку до 21 процента годовых <script>alert(1)</script> сегодня днём."
WISH = {"name": "Morning", "time": "07:07", "zone": "Asia/Kathmandu", "language": "en", "deliveries": ["web", "rss"]}


async def made(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await client.post(DIGESTS, json={**WISH, **changes})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def issued(town: Town, services: Any, digest: dict[str, Any]) -> str:
    """An issue of the day of the archive's posts."""
    await town.archive.post(1, RATE)
    await town.archive.run("UPDATE digests SET next_at = :at", at=POSTED + timedelta(hours=12))
    job = DigestJob(
        Digests(services.database),
        DigestIssues(services.database),
        open_digest_maker(services.settings, services.database, services.clock),
        [],
        clock=lambda: POSTED + timedelta(hours=14),
        page=lambda _: None,
    )
    await job(POSTED)
    rows = await town.archive.rows("SELECT id FROM digest_issues WHERE digest_id = :id", id=digest["id"])
    return str(rows[0].id)


async def test_asked_for_changed_and_removed(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    digest = await made(client, topics=["Economy", " Economy ", "ставка"], channels=[100])
    assert digest["topics"] == ["Economy", "ставка"]
    assert datetime.fromisoformat(digest["next_at"]).astimezone(UTC).strftime("%H:%M") == "01:22"
    got = await client.get(f"{DIGESTS}/{digest['id']}")
    assert got.json() == digest
    assert (
        await client.get(f"{DIGESTS}/{digest['id']}", headers={"If-None-Match": got.headers["ETag"]})
    ).status_code == 304
    changed = await client.put(f"{DIGESTS}/{digest['id']}", json={**WISH, "frequency": "monthly", "day": 31})
    assert (changed.json()["frequency"], changed.json()["channels"]) == ("monthly", [])
    assert [one["id"] for one in (await client.get(DIGESTS)).json()["items"]] == [digest["id"]]
    assert (await client.delete(f"{DIGESTS}/{digest['id']}")).status_code == 204
    assert (await client.get(f"{DIGESTS}/{digest['id']}")).status_code == 404


async def test_a_change_in_the_minute_it_is_due_loses_no_issue(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    digest = await made(client)
    due = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=20)
    await town.archive.run("UPDATE digests SET next_at = :at", at=due)
    url = f"{DIGESTS}/{digest['id']}"
    renamed = (await client.put(url, json={**WISH, "name": "Evening"})).json()
    assert datetime.fromisoformat(renamed["next_at"]) == due
    moved = (await client.put(url, json={**WISH, "time": "08:08"})).json()
    assert datetime.fromisoformat(moved["next_at"]) > datetime.now(UTC), "of another schedule"
    await town.archive.run("UPDATE digests SET next_at = :at", at=due)
    for enabled in (False, True):
        changed = (await client.put(url, json={**WISH, "time": "08:08", "enabled": enabled})).json()
    assert datetime.fromisoformat(changed["next_at"]) > datetime.now(UTC), "what was off is not made up for"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"zone": "Mars/Olympus"}, "is no time zone; write one like Europe/Moscow"),
    ({"zone": "../../etc/passwd"}, "is no time zone"),
    ({"zone": "Europe"}, "is no time zone"),
    ({"time": "25:00"}, "time: write it as 12:07"),
    ({"time": "noon"}, "time: write it as 12:07"),
    ({"topics": [f"topic {number}" for number in range(500)]}, "topics: 100 at most, you gave 500"),
    ({"channels": [100, 300]}, "channels: you have no channel 300"),
    ({"name": " \u0000 "}, "name: give it 1 to 100 characters"),
    ({"weekday": 7}, "weekday"),
    ({"day": 0}, "day"),
    ({"max_stories": 51}, "max_stories"),
    ({"deliveries": ["pigeon"]}, "deliveries"),
    ({"language": "de"}, "language"),
]


async def test_what_is_wrong_is_said(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for wrong, said in WRONG:
        with subtests.test(wrong=wrong, said=said):
            answer = await client_of(town.member).post(DIGESTS, json={**WISH, **wrong})
            assert answer.status_code == 422
            assert said in answer.text


async def test_odd_input_is_no_crash(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    odd = json.dumps({**WISH, "name": "n" * 100, "topics": ["\ud800\0 слово"]})
    assert (await client.post(DIGESTS, content=odd)).status_code in {201, 422}
    digest = await made(client, name="n" * 100, topics=["\0 слово", '"', "-", "OR OR", "a" * 200, "after:x", "topic:x"])
    answer = await client.post(f"{DIGESTS}/{digest['id']}/preview")
    assert answer.status_code == 200, answer.text
    assert (await client.get(f"{DIGESTS}/{digest['id']}/issues?cursor=x")).status_code == 422
    assert (await client.post(DIGESTS, json={**WISH, "channels": [2**70]})).status_code == 422
    assert (await client.post(DIGESTS, content=b"{")).status_code == 422


async def test_there_is_an_end_to_digests(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    await town.archive.run(
        "INSERT INTO digests (tenant_id, user_id, name) SELECT :tenant, :user, 'x' FROM generate_series(2, :most)",
        tenant=town.member.tenant_id,
        user=town.member.user_id,
        most=MOST_DIGESTS,
    )
    await made(client)
    answer = await client.post(DIGESTS, json=WISH)
    assert answer.status_code == 422
    assert "remove one first" in answer.text


async def test_an_issue_with_its_receipts_and_corrections(town: Town, client_of: ClientOf, services: Any) -> None:
    client = client_of(town.member)
    digest = await made(client)
    issue_id = await issued(town, services, digest)
    (listed,) = (await client.get(f"{DIGESTS}/{digest['id']}/issues")).json()["items"]
    assert listed["id"] == issue_id
    (story,) = listed["stories"]
    assert "ключевую ставку" in story["sentences"][0]["text"]
    assert listed["sources"][story["sentences"][0]["sources"][0]]["url"] == "https://t.me/daily_news/1"
    assert listed["coverage"]["posts"] == 1
    assert listed["corrections"] == []
    await town.archive.run("UPDATE posts SET text = 'Ничего не было.', content_hash = 'new', version = 2")
    one = (await client.get(f"{DIGESTS}/{digest['id']}/issues/{issue_id}")).json()
    assert one["corrections"] == [{"source": 0, "change": "edited", "at": None, "text": "Ничего не было."}]
    assert (await client.post(f"{DIGESTS}/{digest['id']}/issues/{issue_id}/send")).json()["deliveries"] == []
    page = await client_of(town.member, page=True).get(f"/digests/{digest['id']}/issues/{issue_id}")
    assert page.status_code == 200
    assert "The post was edited" in page.text
    assert "the sentence does not stand there any more" in page.text
    assert "Ничего не было." in page.text
    assert f'href="/posts/{one["sources"][0]["post_id"]}"' in page.text
    assert "<script>alert" not in page.text


async def test_a_preview_saves_nothing(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    digest = await made(client)
    preview = (await client.post(f"{DIGESTS}/{digest['id']}/preview")).json()
    assert preview["coverage"]["channels"] == 2
    assert (await client.get(f"{DIGESTS}/{digest['id']}/issues")).json() == {"items": [], "next": None}


async def test_the_feed_opens_with_its_address_and_no_other(town: Town, client_of: ClientOf, services: Any) -> None:
    client = client_of(town.member)
    digest = await made(client)
    await issued(town, services, digest)
    stranger = client_of()
    answer = await stranger.get(digest["feed"])
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("application/atom+xml")
    feed = ET.fromstring(answer.content)  # noqa: S314 - our own
    (entry,) = feed.findall(f"{ATOM}entry")
    content = entry.findtext(f"{ATOM}content") or ""
    assert 'href="https://t.me/daily_news/1"' in content
    assert "<script" not in content
    for wrong in (
        digest["feed"] + "x",
        digest["feed"][:-1],
        digest["feed"].replace(digest["id"], str(town.admin.user_id)),
    ):
        assert (await stranger.get(wrong)).status_code == 404
    renewed = (await client.post(f"{DIGESTS}/{digest['id']}/feed")).json()
    assert renewed["feed"] != digest["feed"]
    assert (await stranger.get(digest["feed"])).status_code == 404
    assert (await stranger.get(renewed["feed"])).status_code == 200
    await client.put(f"{DIGESTS}/{digest['id']}", json={**WISH, "deliveries": ["web"]})
    assert (await stranger.get(renewed["feed"])).status_code == 404, "nobody asked for one any more"


async def test_the_feed_of_somebody_who_was_kept_out_is_closed(town: Town, client_of: ClientOf, services: Any) -> None:
    digest = await made(client_of(town.member))
    await issued(town, services, digest)
    stranger = client_of()
    assert (await stranger.get(digest["feed"])).status_code == 200
    kept_out = await client_of(town.admin).patch(f"/api/v1/users/{town.member.user_id}", json={"disabled": True})
    assert kept_out.status_code == 200
    assert (await stranger.get(digest["feed"])).status_code == 404


async def test_somebody_elses_is_not_there(town: Town, client_of: ClientOf, services: Any) -> None:
    client = client_of(town.member)
    digest = await made(client)
    issue_id = await issued(town, services, digest)
    for person in (town.admin, town.other, town.other_member):
        other, page = client_of(person), client_of(person, page=True)
        assert (await other.get(DIGESTS)).json() == {"items": []}
        for path in ("", "/issues", f"/issues/{issue_id}"):
            assert (await other.get(f"{DIGESTS}/{digest['id']}{path}")).status_code == 404
            assert (await page.get(f"/digests/{digest['id']}{path}")).status_code in {404, 405}
        assert (await other.put(f"{DIGESTS}/{digest['id']}", json=WISH)).status_code == 404
        assert (await other.delete(f"{DIGESTS}/{digest['id']}")).status_code == 404
        assert (await page.post(f"/digests/{digest['id']}/remove")).status_code == 404
    assert (await client.get(f"{DIGESTS}/{digest['id']}")).status_code == 200


async def test_jobs_are_for_who_runs_it_all(town: Town, client_of: ClientOf) -> None:
    admin = client_of(town.admin)
    asked = await admin.post("/api/v1/jobs/run", json={"job": "digests"})
    assert (asked.status_code, asked.json()["outcome"]) == (202, "asked")
    names = {one["name"] for one in (await admin.get("/api/v1/jobs")).json()["items"]}
    assert names == {"digests", "trends", "emerging", "interests", "storage_usage"}
    (run,) = (await admin.get("/api/v1/jobs/runs?job=digests")).json()["items"]
    assert run["outcome"] == "asked"
    assert (await admin.post("/api/v1/jobs/run", json={"job": "cooking"})).status_code == 422
    for person in (town.member, town.other):
        assert (await client_of(person).get("/api/v1/jobs")).status_code == 403
        assert (await client_of(person, page=True).get("/jobs")).status_code == 403
    page = await client_of(town.admin, page=True).get("/jobs")
    assert page.status_code == 200
    assert "No process runs jobs now" in page.text
    again = await client_of(town.admin, page=True).post("/jobs/run", data={"job": "trends"})
    assert again.status_code == 303
