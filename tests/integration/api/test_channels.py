"""Channels through the API: what a tenant watches, asks for and takes back; what is another's is not there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.domain.source import ChannelInfo
from telegram_assistant.stores.postgres.watched_channels import Requests
from tests.integration.search.archive import NEWS, SPORT, SYSTEM

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
PRIVATE = 300
CHANNELS = "/api/v1/channels"
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
async def visited(town: Town) -> None:
    """A channel with a hole: ids 5 to 8 of 2 to 20 are unknown; 15 posts are stored."""
    await town.archive.run(
        "UPDATE channels SET newest_id = 20, requested_from = 2, cursor_id = 20, captured = 14,"
        " coverage = '{[2,5),[9,21)}', last_success_at = :now, last_post_at = :posted WHERE id = :id",
        id=NEWS,
        now=NOW,
        posted=NOW - timedelta(hours=30),
    )


@pytest.mark.usefixtures("visited")
async def test_they_are_listed_with_their_coverage(town: Town, client_of: ClientOf) -> None:
    answer = (await client_of(town.member).get(CHANNELS)).json()
    assert [one["id"] for one in answer["items"]] == [NEWS, SPORT]
    assert answer["next"] is None
    news = answer["items"][0]
    assert (news["captured"], news["unknown"], news["proven_up_to"], news["filling"]) == (14, 4, 4, True)
    assert news["percent"] == 78.94
    assert answer["items"][1]["percent"] == 100
    assert (await client_of(town.other).get(CHANNELS)).json()["items"][0]["private"]


async def test_they_come_in_pages_and_by_words(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    first = (await client.get(CHANNELS, params={"limit": 1})).json()
    second = (await client.get(CHANNELS, params={"limit": 1, "cursor": first["next"]})).json()
    assert [first["items"][0]["id"], second["items"][0]["id"], second["next"]] == [NEWS, SPORT, None]
    for words, expected in (("@spo", [SPORT]), ("DAILY", [NEWS]), ("nothing", []), ("%", []), ("\0sport", [SPORT])):
        found = (await client.get(CHANNELS, params={"q": words})).json()
        assert [one["id"] for one in found["items"]] == expected, words
    for cursor in ("nonsense", "W10", "WyJhIl0", "é"):
        assert (await client.get(CHANNELS, params={"cursor": cursor})).status_code == 422, cursor


async def test_one_has_a_tag_that_saves_reading_it_again(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    first = await client.get(f"{CHANNELS}/{NEWS}")
    assert first.json()["username"] == "daily_news"
    again = await client.get(f"{CHANNELS}/{NEWS}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "reference,written",
    [("@Durov", "@durov"), ("https://t.me/durov/12", "@durov"), ("-1001234567890", "-1001234567890")],
)
async def test_adding_is_a_wish_that_capture_fulfils(
    town: Town, client_of: ClientOf, reference: str, written: str
) -> None:
    client = client_of(town.member)
    added = await client.post(CHANNELS, json={"reference": reference})
    assert added.status_code == 202
    assert added.json()["reference"] == written
    assert added.json()["state"] == "requested"
    assert (await client.get("/api/v1/channels/requests")).json()["items"] == [added.json()]
    requests = Requests(town.archive.database)
    (taken,) = await requests.take(now=NOW, hold=timedelta(minutes=1), limit=5)
    assert (taken.tenant_id, taken.user_id) == (SYSTEM, town.member.user_id)
    info = ChannelInfo(id=555, access_hash=1, title="Durov", username="durov")
    await requests.fulfil(taken, info, "account", NOW)
    done = (await client.get(added.headers["location"])).json()
    assert (done["state"], done["channel_id"]) == ("watched", 555)
    assert (await client.get(f"{CHANNELS}/555")).json()["title"] == "Durov"
    assert (await client_of(town.other).get(f"{CHANNELS}/555")).status_code == 404
    assert (await client_of(town.other).get(added.headers["location"])).status_code == 404


NO_CHANNELS: list[str] = [
    "",
    "a b",
    "https://example.org/durov",
    "\0",
    "@no",
    "9" * 299,
    "http://[",
    "t.me/+1",
    "\u202e@durov",
    "тест",
]


async def test_what_names_no_channel_is_explained(town: Town, client_of: ClientOf, subtests: pytest.Subtests) -> None:
    for reference in NO_CHANNELS:
        with subtests.test(reference=reference):
            client = client_of(town.member)
            for answer in (
                await client.post(CHANNELS, json={"reference": reference}),
                await client.get(f"{CHANNELS}/preview", params={"reference": reference}),
            ):
                assert answer.status_code == 422, answer.text
                assert answer.headers["content-type"] == "application/problem+json"
            assert (await client.get("/api/v1/channels/requests")).json()["items"] == []


async def test_each_entry_of_a_list_has_its_own_outcome(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    text = "@Durov, https://t.me/daily_news/12\nno channel at all\nt.me/durov"
    first = (await client.post(f"{CHANNELS}/list", json={"text": text})).json()["items"]
    assert [(one["reference"], one["outcome"]) for one in first] == [
        ("@durov", "added"),
        ("@daily_news", "watched"),
        (None, "refused"),
    ]
    assert first[2]["text"] == "no channel at all"
    assert "accepted are @name" in first[2]["error"]
    again = (await client.post(f"{CHANNELS}/list", json={"text": "@durov"})).json()["items"]
    assert [one["outcome"] for one in again] == ["waiting"]
    assert len((await client.get(f"{CHANNELS}/requests")).json()["items"]) == 1


async def test_a_list_that_is_too_long_adds_nothing(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    most = "\n".join(f"@channel{number}" for number in range(1000))
    assert (await client.post(f"{CHANNELS}/list", json={"text": f"{most}\n@one_more"})).status_code == 422
    assert (await client.get(f"{CHANNELS}/requests")).json()["items"] == []
    assert (await client.post(f"{CHANNELS}/list", json={"text": most})).status_code == 202
    refused = await client.post(f"{CHANNELS}/list", json={"text": "@one_more"})
    assert (refused.status_code, "1,000" in refused.json()["detail"]) == (409, True)
    assert (await client_of(town.other).post(f"{CHANNELS}/list", json={"text": "@one_more"})).status_code == 202


async def test_what_is_exported_can_be_added_elsewhere(town: Town, client_of: ClientOf) -> None:
    for form, kind in (("opml", "text/x-opml"), ("csv", "text/csv")):
        exported = await client_of(town.member).get(f"{CHANNELS}/export", params={"format": form})
        assert exported.headers["content-type"].startswith(kind)
        assert f'filename="channels.{form}"' in exported.headers["content-disposition"]
        added = await client_of(town.other).post(f"{CHANNELS}/list", json={"text": exported.text})
        found = {one["reference"] for one in added.json()["items"]}
        assert found == {"@daily_news", "@sport"}, form


async def test_a_wish_that_failed_says_what_to_do_and_can_be_taken_back(town: Town, client_of: ClientOf) -> None:
    client, requests = client_of(town.member), Requests(town.archive.database)
    number = (await client.post(CHANNELS, json={"reference": "@nobody_there"})).json()["id"]
    (taken,) = await requests.take(now=NOW, hold=timedelta(minutes=1), limit=5)
    await requests.fail(taken, "resolving: nobody has this username (X)", next_attempt_at=NOW)
    shown = (await client.get(f"{CHANNELS}/requests/{number}")).json()
    assert shown["state"] == "failed"
    assert "Check the name" in shown["what_to_do"]
    previewed = (await client.get(f"{CHANNELS}/preview", params={"reference": "t.me/nobody_there"})).json()
    assert (previewed["state"], previewed["request"]["id"]) == ("failed", number)
    assert (await client_of(town.other).delete(f"{CHANNELS}/requests/{number}")).status_code == 404
    assert (await client.delete(f"{CHANNELS}/requests/{number}")).status_code == 204
    assert (await client.delete(f"{CHANNELS}/requests/{number}")).status_code == 404


async def test_a_preview_shows_what_is_public_and_nothing_else(town: Town, client_of: ClientOf) -> None:
    other = client_of(town.other)
    known = (await other.get(f"{CHANNELS}/preview", params={"reference": "@sport"})).json()
    assert (known["state"], known["title"], known["channel_id"]) == ("known", "Sport", None)
    own = (await other.get(f"{CHANNELS}/preview", params={"reference": "@secret_of_b"})).json()
    assert (own["state"], own["channel_id"]) == ("watched", PRIVATE)
    hidden = (await client_of(town.admin).get(f"{CHANNELS}/preview", params={"reference": "@secret_of_b"})).json()
    assert (hidden["state"], hidden["title"]) == ("unknown", None)


async def test_another_tenants_channel_is_not_there(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.admin)
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/ledger"),
        ("GET", "/explain"),
        ("GET", "/rhythm"),
        ("POST", "/parse"),
        ("POST", "/revive"),
    ):
        answer = await client.request(method, f"{CHANNELS}/{PRIVATE}{path}")
        assert answer.status_code == 404, path
    assert (await client.post(f"{CHANNELS}/{PRIVATE}/backfill", json={"all": True})).status_code == 404
    assert (await client.patch(f"{CHANNELS}/{PRIVATE}", json={"priority": 5})).status_code == 404
    (row,) = await town.archive.rows(
        "SELECT status, priority, next_visit_at, history_from FROM channels WHERE id = 300"
    )
    assert tuple(row) == ("active", 0, None, None)


async def test_whoever_stops_watching_takes_nothing_from_others(town: Town, client_of: ClientOf) -> None:
    await town.archive.run(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=town.other.tenant_id,
        user=town.other.user_id,
        channel=SPORT,
    )
    await town.archive.post(1, "goal", channel=SPORT)
    assert (await client_of(town.admin).delete(f"{CHANNELS}/{SPORT}")).status_code == 204
    assert (await client_of(town.member).get(f"{CHANNELS}/{SPORT}")).status_code == 404
    assert (await client_of(town.other).get(f"{CHANNELS}/{SPORT}")).json()["status"] == "active"
    assert (await client_of(town.other).delete(f"{CHANNELS}/{SPORT}")).status_code == 204
    (row,) = await town.archive.rows("SELECT status FROM channels WHERE id = :id", id=SPORT)
    assert row.status == "removed", "nobody watches it: it is not visited any more"
    assert len(await town.archive.rows("SELECT id FROM posts WHERE channel_id = :id", id=SPORT)) == 1


async def test_it_is_visited_when_somebody_asks(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member).post(f"{CHANNELS}/{NEWS}/parse")
    assert answer.status_code == 202
    (row,) = await town.archive.rows("SELECT next_visit_at FROM channels WHERE id = :id", id=NEWS)
    assert row.next_visit_at is not None
    assert (await client_of(town.member).get(answer.json()["follow"])).status_code == 200


@pytest.mark.usefixtures("visited")
async def test_older_posts_are_asked_for(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.admin)
    answer = await client.post(f"{CHANNELS}/{NEWS}/backfill", json={"since": "2024-01-01T00:00:00Z"})
    assert answer.status_code == 202
    (row,) = await town.archive.rows("SELECT history_from FROM channels WHERE id = :id", id=NEWS)
    assert row.history_from == datetime(2024, 1, 1, tzinfo=UTC)
    assert (await client.post(f"{CHANNELS}/{SPORT}/backfill", json={"all": True})).status_code == 409
    for wrong in ({}, {"since": "2024-01-01T00:00:00Z", "all": True}, {"since": "2024-01-01T00:00:00"}, {"since": 1}):
        assert (await client.post(f"{CHANNELS}/{NEWS}/backfill", json=wrong)).status_code == 422, wrong


@pytest.mark.usefixtures("visited")
async def test_the_ledger_names_the_holes(town: Town, client_of: ClientOf) -> None:
    ledger = (await client_of(town.member).get(f"{CHANNELS}/{NEWS}/ledger")).json()
    assert ledger["holes"] == [[5, 8]]
    assert (ledger["captured"], ledger["empty"], ledger["unknown"], ledger["not_requested"]) == (14, 1, 4, 1)


@pytest.mark.usefixtures("visited")
async def test_the_next_visit_is_explained(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    explained = (await client.get(f"{CHANNELS}/{NEWS}/explain")).json()
    assert explained["why"] == "unplanned"
    await town.archive.run(
        "UPDATE channels SET failures = 3, last_error = 'resolving: the channel is private, or so', status = 'dead'"
        " WHERE id = :id",
        id=NEWS,
    )
    explained = (await client.get(f"{CHANNELS}/{NEWS}/explain")).json()
    assert explained["why"] == "given_up"
    assert "is private" in explained["sentences"][0]
    assert "join it" in (await client.get(f"{CHANNELS}/{NEWS}")).json()["what_to_do"]


@pytest.mark.usefixtures("visited")
async def test_the_rhythm_is_counted_on_the_clock_of_the_channel(town: Town, client_of: ClientOf) -> None:
    monday = datetime.now(UTC).replace(hour=22, minute=30) - timedelta(days=7)
    monday -= timedelta(days=monday.weekday())
    await town.archive.post(1, "late")
    await town.archive.run("UPDATE posts SET posted_at = :at", at=monday)
    rhythm = (await client_of(town.member).get(f"{CHANNELS}/{NEWS}/rhythm")).json()
    assert rhythm["timezone"] == "Europe/Moscow"
    counted = [(day, hour) for day, hours in enumerate(rhythm["posts"]) for hour, posts in enumerate(hours) if posts]
    assert counted == [(1, 1)], "half past ten in the evening is Tuesday in Moscow"
    assert rhythm["silent_seconds"] > 0
    assert rhythm["threshold_seconds"] == 3600


async def test_only_admins_change_a_channel(town: Town, client_of: ClientOf) -> None:
    for path, method in (("", "PATCH"), ("/revive", "POST")):
        answer = await client_of(town.member).request(method, f"{CHANNELS}/{NEWS}{path}", json={"priority": 1})
        assert answer.status_code == 403, path
    admin = client_of(town.admin)
    changed = (await admin.patch(f"{CHANNELS}/{NEWS}", json={"priority": 7, "timezone": "Asia/Tokyo"})).json()
    assert (changed["priority"], changed["timezone"]) == (7, "Asia/Tokyo")
    for wrong in ({"timezone": "Mars/Base"}, {"timezone": "../../etc/passwd"}, {"timezone": "\0"}, {"priority": 2**70}):
        assert (await admin.patch(f"{CHANNELS}/{NEWS}", json=wrong)).status_code == 422, wrong
    await town.archive.run(
        "UPDATE channels SET status = 'dead', failures = 9, last_error = 'x' WHERE id = :id", id=NEWS
    )
    assert (await admin.post(f"{CHANNELS}/{NEWS}/revive")).status_code == 202
    assert (await admin.get(f"{CHANNELS}/{NEWS}")).json()["status"] == "active"
    done = await town.archive.rows("SELECT action FROM audit_log ORDER BY id")
    assert [row.action for row in done] == ["channel_changed", "channel_revived"]


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**30, "x"])
async def test_ids_that_cannot_be(town: Town, client_of: ClientOf, number: object) -> None:
    client = client_of(town.admin)
    assert (await client.get(f"{CHANNELS}/{number}")).status_code == 422
    assert (await client.get(f"{CHANNELS}/requests/{number}")).status_code == 422


async def test_nobody_sees_nothing(client_of: ClientOf) -> None:
    assert (await client_of().get(CHANNELS)).status_code == 401
