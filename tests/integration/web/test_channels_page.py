"""The pages of channels: what a person reads on them and does with them, in both languages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.source import ChannelInfo
from telegram_assistant.domain.witnesses import Difference, Differs
from telegram_assistant.http.web.pages.channels import KEYS
from telegram_assistant.i18n import LANGUAGES, load_texts
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.stores.postgres.witnesses import Witnesses
from tests.integration.search.archive import NEWS, SPORT

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
PRIVATE = 300
HTMX = {"HX-Request": "true"}


@pytest.fixture
async def holes(town: Town) -> None:
    """Ids 5 to 8 of 2 to 20 are unknown; it failed the last time."""
    await town.archive.run(
        "UPDATE channels SET newest_id = 20, requested_from = 2, cursor_id = 20, captured = 14, failures = 2,"
        " coverage = '{[2,5),[9,21)}', last_post_at = :posted, last_success_at = :posted,"
        " last_error = 'history: Telegram asks to wait 9 s',"
        " about = '<script>alert(1)</script>', title = 'News <b>daily</b>' WHERE id = :id",
        id=NEWS,
        posted=datetime.now(UTC) - timedelta(hours=30),
    )


@pytest.mark.usefixtures("holes")
async def test_the_list_shows_coverage_and_what_to_do(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member, page=True).get("/channels")
    assert answer.status_code == 200
    assert "proven up to id 4, 4 ids to come" in answer.text
    assert "Telegram asks to wait 9 s" in answer.text
    assert "it is tried again by itself" in answer.text
    assert "News &lt;b&gt;daily&lt;/b&gt;" in answer.text
    assert 'value="78.94"' in answer.text
    assert "Secret" not in answer.text
    assert "style=" not in answer.text, "the policy would forbid it"


async def test_it_can_be_filtered_and_speaks_russian(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    client.cookies.set("tga_language", "ru")
    answer = await client.get("/channels/list", params={"q": "@spo"}, headers=HTMX)
    assert "Sport" in answer.text
    assert "Daily" not in answer.text
    assert "Ещё не посещался" in answer.text
    nothing = await client.get("/channels/list", params={"q": "<i>\0"}, headers=HTMX)
    assert "Нет подходящих каналов" in nothing.text


async def test_without_channels_it_says_how_to_begin(town: Town, client_of: ClientOf) -> None:
    await town.archive.run("DELETE FROM subscriptions")
    assert "No channels yet" in (await client_of(town.member, page=True).get("/channels")).text


async def test_a_pasted_list_is_added_and_what_it_does_not_name_is_told(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    assert "/channels/several" in (await client.get("/channels")).text
    pasted = {"several": "@durov, t.me/daily_news\n<b>no name</b>\n" + "\n".join(f"@name{n}" for n in range(60))}
    answer = await client.post("/channels/several", data=pasted, headers=HTMX)
    assert "61 channels are looked for" in answer.text
    assert "1 known already" in answer.text
    assert "1 entry names no channel" in answer.text
    assert "&lt;b&gt;no name&lt;/b&gt;" in answer.text
    assert "and 11 more" in answer.text
    assert (await client.post("/channels/several", data=pasted)).status_code == 303


@pytest.mark.parametrize(
    "typed,expected",
    [
        ("@daily_news", "watched already"),
        ("https://t.me/some_channel", "Telegram will be asked"),
        ("not a name", "no channel&#39;s name yet"),
        ("\0", "no channel&#39;s name yet"),
        ("<script>", "no channel&#39;s name yet"),
        ("", ""),
    ],
)
async def test_what_is_typed_is_previewed(town: Town, client_of: ClientOf, typed: str, expected: str) -> None:
    client = client_of(town.member, page=True)
    answer = await client.get("/channels/preview", params={"reference": typed}, headers=HTMX)
    assert answer.status_code == 200
    assert expected in answer.text
    assert "<script>" not in answer.text


async def test_adding_shows_the_wish_until_it_is_fulfilled(town: Town, client_of: ClientOf) -> None:
    client, requests = client_of(town.member, page=True), Requests(town.archive.database)
    shown = await client.post("/channels", data={"reference": "t.me/durov"}, headers=HTMX)
    assert "@durov" in shown.text
    assert 'hx-get="/channels/requests?had=1"' in shown.text
    (taken,) = await requests.take(now=datetime.now(UTC), hold=timedelta(minutes=1), limit=5)
    await requests.fail(taken, "resolving: nobody has this username", next_attempt_at=datetime.now(UTC))
    waiting = await client.get("/channels/requests", params={"had": 1}, headers=HTMX)
    assert "Check the name or the link" in waiting.text
    assert "hx-trigger" not in waiting.headers
    info = ChannelInfo(id=9, access_hash=1, title="Durov", username="durov")
    await requests.fulfil(taken, info, "account", datetime.now(UTC))
    done = await client.get("/channels/requests", params={"had": 1}, headers=HTMX)
    assert done.headers["hx-trigger"] == "channels-changed"
    assert "@durov" not in done.text
    assert "Durov" in (await client.get("/channels")).text


async def test_a_wish_is_given_up(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    assert (await client.post("/channels", data={"reference": "@durov"})).headers["location"] == "/channels"
    (row,) = await town.archive.rows("SELECT id FROM channel_requests")
    await client_of(town.other, page=True).post(f"/channels/requests/{row.id}/drop")
    assert len(await town.archive.rows("SELECT id FROM channel_requests")) == 1
    await client.post(f"/channels/requests/{row.id}/drop", headers=HTMX)
    assert await town.archive.rows("SELECT id FROM channel_requests") == []


async def test_a_wrong_name_is_explained(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member, page=True).post("/channels", data={"reference": "a b"}, headers=HTMX)
    assert answer.status_code == 422
    assert "does not name one channel" in answer.text


@pytest.mark.usefixtures("holes")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_channel_is_shown_whole(town: Town, client_of: ClientOf, language: str) -> None:
    client = client_of(town.admin, page=True)
    client.cookies.set("tga_language", language)
    answer = await client.get(f"/channels/{NEWS}")
    assert answer.status_code == 200
    assert '<span class="badge warn">5\u20138</span>' in answer.text
    assert '<rect class="unknown"' in answer.text
    assert answer.text.count('class="heat"') == 7 * 24
    assert {"en": "Silent for 30 hours", "ru": "Молчит 30 часов"}[language] in answer.text
    assert {"en": "The last visits failed (2)", "ru": "Последние визиты не удались (2)"}[language] in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "/search?q=channel%3A%40daily_news" in answer.text
    assert f'hx-get="/channels/{NEWS}/coverage"' in answer.text, "it is polled while posts are on their way"
    assert "style=" not in answer.text


@pytest.mark.usefixtures("holes")
@pytest.mark.parametrize("language", ["en", "ru"])
async def test_a_large_history_says_until_when_it_waits_for_a_takeout(
    town: Town, services: Services, client_of: ClientOf, language: str
) -> None:
    client = client_of(town.member, page=True)
    client.cookies.set("tga_language", language)
    await town.archive.run(
        "INSERT INTO telegram_accounts (tenant_id, telegram_user_id, name, session, takeout_until)"
        " VALUES (:tenant, 7, 'Ann', '', now() + interval '20 hours')",
        tenant=SYSTEM_TENANT,
    )
    await town.archive.run(
        "UPDATE channels SET access_hash = (SELECT jsonb_build_object(CAST(id AS text), 11) FROM telegram_accounts)"
        " WHERE id = :id",
        id=NEWS,
    )
    waits = {"en": "Until then the posts arrive the usual way", "ru": "посты загружаются обычным путём"}[language]
    page = f"/channels/{NEWS}/coverage"
    assert waits not in (await client.get(page, headers=HTMX)).text, "takeouts are off"
    services.settings.telegram_takeout_min_messages = 4
    shown = (await client.get(page, headers=HTMX)).text
    assert waits in shown
    assert "Ann" not in shown, "the operator's account"
    await town.archive.run("UPDATE telegram_accounts SET takeout_until = NULL, takeout_id = 5")
    used = {"en": "They are read in a takeout session", "ru": "Они читаются в сеансе экспорта"}[language]
    assert used in (await client.get(f"/channels/{NEWS}")).text
    services.settings.telegram_takeout_min_messages = 5
    assert used not in (await client.get(page, headers=HTMX)).text, "four ids are not so many"


@pytest.mark.usefixtures("holes")
@pytest.mark.parametrize("language", ["en", "ru"])
async def test_the_progress_of_a_full_audit_is_shown(town: Town, client_of: ClientOf, language: str) -> None:
    client = client_of(town.admin, page=True)
    client.cookies.set("tga_language", language)
    running = {"en": "20 of 80; changes found: 3", "ru": "20 из 80; найдено изменений: 3"}[language]
    ended = {"en": "were read again, changes found: 4", "ru": "перечитаны, найдено изменений: 4"}[language]
    await town.archive.run(
        "INSERT INTO channel_audits (channel_id, wanted_at, began_at, reason, done, total, found)"
        " VALUES (:id, now(), now(), 'away', 20, 80, 3)",
        id=NEWS,
    )
    assert running in (await client.get(f"/channels/{NEWS}")).text
    assert running in (await client.get(f"/channels/{NEWS}/coverage", headers=HTMX)).text
    await town.archive.run(
        "UPDATE channel_audits SET wanted_at = NULL, audited_at = now(), found = 4 WHERE channel_id = :id", id=NEWS
    )
    answer = await client.get(f"/channels/{NEWS}")
    assert ended in answer.text
    assert running not in answer.text


@pytest.mark.parametrize("language", ["en", "ru"])
async def test_two_witnesses_who_differ_are_shown_until_an_admin_has_seen_it(
    town: Town, client_of: ClientOf, language: str
) -> None:
    found = Difference(message_id=7, kind=Differs.TEXT, account_text="<b>said</b> so", preview_text="said otherwise")
    gone = Difference(message_id=8, kind=Differs.ONLY_ACCOUNT, account_text="eight", preview_text=None)
    await Witnesses(town.archive.database).record(NEWS, [7, 8], [found, gone], datetime.now(UTC))
    admin, member = client_of(town.admin, page=True), client_of(town.member, page=True)
    for client in (admin, member):
        client.cookies.set("tga_language", language)
    shown = (await admin.get(f"/channels/{NEWS}")).text
    for words in (
        "&lt;b&gt;said&lt;/b&gt; so",
        "said otherwise",
        "eight",
        {"en": "The public preview", "ru": "Публичный предпросмотр"}[language],
    ):
        assert words in shown
    button = {"en": "Mark as seen", "ru": "Отметить как просмотренное"}[language]
    assert shown.count(button) == 2
    assert button not in (await member.get(f"/channels/{NEWS}")).text
    listed = (await client_of(town.member).get(f"/api/v1/channels/{NEWS}/differences")).json()["items"]
    assert {(one["message_id"], one["kind"], one["preview_text"]) for one in listed} == {
        (7, "text", "said otherwise"),
        (8, "only_account", None),
    }
    path = f"/channels/{NEWS}/differences/{listed[0]['id']}/seen"
    assert (await member.post(path)).status_code == 403
    assert (await admin.post(path)).status_code == 303
    assert (await admin.post(f"/channels/{NEWS}/differences/999/seen")).status_code == 404
    seen = (await admin.get(f"/channels/{NEWS}")).text
    assert (seen.count(button), "said otherwise" in seen, "eight" in seen) == (1, True, True)


async def test_a_channel_that_was_never_visited(town: Town, client_of: ClientOf) -> None:
    answer = await client_of(town.member, page=True).get(f"/channels/{SPORT}")
    assert "It was not visited yet" in answer.text
    assert "No post of it is known yet" in answer.text
    assert "For admins" not in answer.text


@pytest.mark.usefixtures("holes")
async def test_what_is_done_on_its_page(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.admin, page=True)
    for path, data in (
        ("visit", {}),
        ("backfill", {"since": "2024-02-03"}),
        ("change", {"priority": "5", "timezone": "Asia/Tokyo"}),
        ("revive", {}),
    ):
        answer = await client.post(f"/channels/{NEWS}/{path}", data=data)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/channels/{NEWS}"), path
    (row,) = await town.archive.rows(
        "SELECT priority, timezone, history_from, failures FROM channels WHERE id = :id", id=NEWS
    )
    assert tuple(row) == (5, "Asia/Tokyo", datetime(2024, 2, 3, tzinfo=UTC), 0)
    assert "Older posts are arriving" in (await client.get(f"/channels/{NEWS}/coverage", headers=HTMX)).text
    assert (await client.post(f"/channels/{NEWS}/backfill")).status_code == 303, "without a day: everything"
    assert (await client.post(f"/channels/{NEWS}/remove")).headers["location"] == "/channels"
    assert (await client.get(f"/channels/{NEWS}")).status_code == 404


@pytest.mark.parametrize(
    "path,data",
    [
        ("backfill", {"since": "1999-01-01"}),
        ("backfill", {"since": "soon"}),
        ("change", {"priority": "1", "timezone": "Mars/Base"}),
        ("change", {"priority": "x", "timezone": "UTC"}),
    ],
)
async def test_wrong_values_are_explained(town: Town, client_of: ClientOf, path: str, data: dict[str, str]) -> None:
    answer = await client_of(town.admin, page=True).post(f"/channels/{NEWS}/{path}", data=data)
    assert answer.status_code == 422
    assert "text/html" in answer.headers["content-type"]


async def test_members_and_other_tenants_may_not(town: Town, client_of: ClientOf) -> None:
    member, admin = client_of(town.member, page=True), client_of(town.admin, page=True)
    assert (await member.post(f"/channels/{NEWS}/revive")).status_code == 403
    data = {"priority": "1", "timezone": "UTC"}
    assert (await member.post(f"/channels/{NEWS}/change", data=data)).status_code == 403
    for path in ("", "/coverage"):
        assert (await admin.get(f"/channels/{PRIVATE}{path}")).status_code == 404, path
    for path in ("visit", "remove", "revive"):
        assert (await admin.post(f"/channels/{PRIVATE}/{path}")).status_code == 404, path
    assert (await client_of(page=True).get("/channels")).status_code == 303


def test_each_reason_can_be_said_in_both_languages() -> None:
    texts = load_texts()
    for key in KEYS:
        for language in LANGUAGES:
            assert texts(language, key, posts="2", at="10:00", every="300", failures=3)


async def test_many_are_changed_at_once_and_each_has_its_outcome(town: Town, client_of: ClientOf) -> None:
    page, api = client_of(town.admin, page=True), client_of(town.admin)
    assert f'value="{SPORT}"' in (await page.get("/channels/many")).text
    data = {"action": "priority", "priority": "7", "channel": [str(NEWS), str(SPORT), str(PRIVATE)]}
    shown = (await page.post("/channels/many", data=data)).text
    assert "2 channels changed" in shown
    assert f"{PRIVATE} (There is no such channel)" in shown
    assert {row.priority for row in await town.archive.rows("SELECT priority FROM channel_settings")} == {7}
    answer = await api.post("/api/v1/channels/many", json={"ids": [NEWS, 999], "action": "remove"})
    assert [one["error"] for one in answer.json()["items"]] == [None, "There is no such channel"]
    assert f'value="{NEWS}"' not in (await page.get("/channels/many")).text
    wrong = await api.post("/api/v1/channels/many", json={"ids": [SPORT], "action": "priority"})
    assert wrong.status_code == 422
    assert (await client_of(town.member, page=True).post("/channels/many", data=data)).status_code == 403
