"""N17: tenants that share a channel, and one's private channels: rights, settings, and what others may learn."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.domain.access import OLD_HISTORIES_A_DAY
from telegram_assistant.domain.channel import ChannelRef, parse_ref
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, SourceError
from telegram_assistant.ingest.requests import ChannelRequests
from telegram_assistant.stores.postgres.channel_settings import ChannelSettings
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import NEWS, SPORT, SYSTEM

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
PRIVATE, UNKNOWN = 300, 301
CHANNELS = "/api/v1/channels"


@pytest.fixture
async def shared(town: Town) -> None:
    """Both tenants watch the news, which were visited."""
    await town.archive.run("UPDATE channels SET requested_from = 50, newest_id = 60 WHERE id = :id", id=NEWS)
    await town.archive.run(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=town.other.tenant_id,
        user=town.other.user_id,
        channel=NEWS,
    )


async def used(town: Town, channel: int = NEWS) -> tuple[int, str]:
    """What capture goes by."""
    (row,) = await town.archive.rows("SELECT priority, timezone FROM channels WHERE id = :id", id=channel)
    return row.priority, row.timezone


@pytest.mark.usefixtures("shared")
async def test_n17_settings_are_each_tenants_own_and_capture_takes_the_highest(town: Town, client_of: ClientOf) -> None:
    ours, theirs = client_of(town.admin), client_of(town.other)

    async def seen(client: Any) -> tuple[int, str]:
        answer = (await client.get(f"{CHANNELS}/{NEWS}")).json()
        return answer["priority"], answer["timezone"]

    assert (await ours.patch(f"{CHANNELS}/{NEWS}", json={"priority": -5})).json()["priority"] == -5
    assert await used(town) == (0, "Europe/Moscow"), "the other tenant asks for the usual"
    change = {"priority": 7, "timezone": "Asia/Tokyo"}
    assert (await theirs.patch(f"{CHANNELS}/{NEWS}", json=change)).status_code == 200
    assert await seen(ours) == (-5, "Europe/Moscow")
    assert await seen(theirs) == (7, "Asia/Tokyo")
    assert await used(town) == (7, "Asia/Tokyo")
    await ours.patch(f"{CHANNELS}/{NEWS}", json={"timezone": "Europe/Berlin"})
    assert await used(town) == (7, "Asia/Tokyo"), "of equals the first"
    assert (await theirs.delete(f"{CHANNELS}/{NEWS}")).status_code == 204
    assert await used(town) == (-5, "Europe/Berlin"), "who watches no more asks for nothing"


async def test_n17_the_operators_wish_counts_beside_those_of_tenants(town: Town) -> None:
    settings = ChannelSettings(town.archive.database)
    await settings.change(SYSTEM, PRIVATE, 4)
    assert (await used(town, PRIVATE))[0] == 4
    await settings.change(town.other.tenant_id, PRIVATE, 9)
    assert (await used(town, PRIVATE))[0] == 9


@pytest.mark.usefixtures("shared")
async def test_n17_old_history_is_for_admins(town: Town, client_of: ClientOf) -> None:
    """Through the API and the page; the bot has no such button."""
    long_ago = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    recent = (datetime.now(UTC) - timedelta(days=5)).isoformat()
    for person in (town.member, town.other_member):
        client, page = client_of(person), client_of(person, page=True)
        for body in ({"all": True}, {"since": long_ago}):
            refused = await client.post(f"{CHANNELS}/{NEWS}/backfill", json=body)
            assert (refused.status_code, "ask one of yours" in refused.text) == (403, True), body
        assert (await page.post(f"/channels/{NEWS}/backfill")).status_code == 403
        assert "or the whole history" not in (await page.get(f"/channels/{NEWS}")).text
    (row,) = await town.archive.rows("SELECT history_from FROM channels WHERE id = :id", id=NEWS)
    assert row.history_from is None
    assert (await client_of(town.member).post(f"{CHANNELS}/{NEWS}/backfill", json={"since": recent})).status_code == 202
    assert (await client_of(town.other).post(f"{CHANNELS}/{NEWS}/backfill", json={"all": True})).status_code == 202


@pytest.mark.usefixtures("shared")
async def test_n17_a_tenant_asks_for_so_many_histories_a_day(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.other)
    ends = [
        (await client.post(f"{CHANNELS}/{NEWS}/backfill", json={"all": True})).status_code
        for _ in range(OLD_HISTORIES_A_DAY + 1)
    ]
    assert ends == [202] * OLD_HISTORIES_A_DAY + [409]
    assert (await client_of(town.admin).post(f"{CHANNELS}/{NEWS}/backfill", json={"all": True})).status_code == 202


async def test_n17_a_member_removes_no_channel_and_no_wish_of_another(town: Town, client_of: ClientOf) -> None:
    member, page = client_of(town.member), client_of(town.member, page=True)
    assert (await member.delete(f"{CHANNELS}/{SPORT}")).status_code == 403
    assert (await page.post(f"/channels/{SPORT}/remove")).status_code == 403
    assert "Stop watching" not in (await page.get(f"/channels/{SPORT}")).text
    assert (await member.get(f"{CHANNELS}/{SPORT}")).status_code == 200
    theirs = (await client_of(town.admin).post(CHANNELS, json={"reference": "@of_the_admin"})).json()["id"]
    mine = (await member.post(CHANNELS, json={"reference": "@of_the_member"})).json()["id"]
    assert (await member.delete(f"{CHANNELS}/requests/{theirs}")).status_code == 403
    assert (await member.delete(f"{CHANNELS}/requests/{mine}")).status_code == 204
    assert (await client_of(town.admin).delete(f"{CHANNELS}/{SPORT}")).status_code == 204


class Accounts:
    """Accounts that have joined the private channel: of tenant B; as `ingest.accounts.Pool` answers."""

    def __init__(self, owner: UUID) -> None:
        self.owner = owner

    async def reach(self) -> None:
        """All channels."""

    async def resolve(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo]:
        if tenant_id == self.owner and ref.channel_id == PRIVATE:
            return "b", ChannelInfo(id=PRIVATE, title="Secret", username=None, access_hash=1, is_private=True)
        raise SourceError(Failure.CHANNEL_PRIVATE, f"Telegram finds no channel by its number alone ({ref})")


async def test_n17_a_private_channel_of_another_is_told_of_as_one_that_does_not_exist(
    town: Town, client_of: ClientOf
) -> None:
    client, requests = client_of(town.admin), Requests(town.archive.database)
    await town.archive.run("UPDATE channels SET username = NULL WHERE id = :id", id=PRIVATE)
    fulfilment = ChannelRequests(requests, Accounts(town.other.tenant_id), clock=utc_now, due=asyncio.Event())
    told = []
    for number in (PRIVATE, UNKNOWN):
        reference = f"https://t.me/c/{number}"
        said = [(await client.get(f"{CHANNELS}/preview", params={"reference": reference})).json()]
        wish = await client.post(CHANNELS, json={"reference": reference})
        await fulfilment.step()
        said += [wish.status_code, (await client.get(wish.headers["Location"])).json()]
        said.append((await client.get(f"{CHANNELS}/preview", params={"reference": reference})).json())
        said += [(await client.request(method, f"{CHANNELS}/{number}")).text for method in ("GET", "DELETE")]
        told.append(without_numbers(said, number))
    assert told[0] == told[1]
    assert (
        await town.archive.rows("SELECT 1 FROM subscriptions WHERE tenant_id = :t AND channel_id = 300", t=SYSTEM) == []
    )


def without_numbers(said: list[Any], number: int) -> str:
    shown = repr(said).replace(str(number), "N")
    for name in ("id", "request_id"):
        for one in range(1, 50):
            shown = shown.replace(f"'{name}': {one},", f"'{name}': …,")
    return shown


async def test_n17_a_private_channel_belongs_to_the_tenant_of_its_account(town: Town) -> None:
    """Not to who asked first: a wish of another tenant leaves no trace of it."""
    account = await account_of(town, town.other.tenant_id)
    requests = Requests(town.archive.database)
    info = ChannelInfo(id=777, title="Secret", username=None, access_hash=1, is_private=True)
    await requests.add(SYSTEM, town.admin.user_id, "https://t.me/c/777")
    await requests.add(town.other.tenant_id, town.other.user_id, "https://t.me/c/777")
    first, second = await requests.take(now=utc_now(), hold=timedelta(minutes=1), limit=5)
    with pytest.raises(SourceError, match="has joined"):
        await requests.fulfil(first, info, account, utc_now())
    assert await town.archive.rows("SELECT 1 FROM channels WHERE id = 777") == []
    await requests.fulfil(second, info, account, utc_now())
    (row,) = await town.archive.rows("SELECT tenant_id FROM channels WHERE id = 777")
    assert row.tenant_id == town.other.tenant_id
    with pytest.raises(SourceError, match="has joined"):
        await requests.fulfil(first, info, account, utc_now())
    watching = await town.archive.rows("SELECT tenant_id FROM subscriptions WHERE channel_id = 777")
    assert [one.tenant_id for one in watching] == [town.other.tenant_id]
    assert str(parse_ref(first.reference))


async def account_of(town: Town, tenant: UUID) -> str:
    statement = (
        "INSERT INTO telegram_accounts (tenant_id, telegram_user_id, name, session) VALUES (:tenant, 5, 'b', '')"
    )
    await town.archive.run(statement, tenant=tenant)
    (row,) = await town.archive.rows("SELECT id FROM telegram_accounts WHERE telegram_user_id = 5")
    return str(row.id)
