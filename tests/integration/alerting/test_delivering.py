"""Sending to Slack, PagerDuty and webhooks: retried, slowed down, given up; and never to a private address."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest

from telegram_assistant.alerting.delivering import ATTEMPTS, OF_ONE
from telegram_assistant.config import Settings
from telegram_assistant.crawl.network import Poster
from telegram_assistant.domain.alerting import MOST_CHANNELS, Topic, Way
from telegram_assistant.domain.saved_search import MOST_SEARCHES
from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.alerts import Webhooks
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.jobs import loopback, open_alerts, open_places
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import POSTED, SYSTEM

pytestmark = pytest.mark.integration

Office = Any  # of conftest.py, which cannot be imported


async def trouble(office: Office) -> None:
    await office.archive.run("UPDATE channels SET status = 'dead', last_error = '<!channel> & more' WHERE id = 100")
    await office.round()


async def test_strangers_words_mention_nobody_in_slack(office: Office) -> None:
    await office.place(Way.SLACK)
    await trouble(office)
    [message] = office.world.slack
    text = next(block for block in message["blocks"] if block["type"] == "section")["text"]["text"]
    assert text == "&lt;!channel&gt; &amp; more"


@pytest.mark.parametrize("status", [500, 503])
async def test_a_failure_is_tried_again_and_given_up(office: Office, status: int) -> None:
    place = await office.place(Way.SLACK)
    office.world.status = [status] * 20
    await trouble(office)
    for attempt in range(1, ATTEMPTS + 1):
        [one] = await office.deliveries()
        assert one.attempts == attempt
        assert str(status) in one.error
        assert await office.alerting.deliver() == 0, "not before it is due"
        await office.due_now()
        await office.round()
    assert (await office.deliveries())[0].state == "dead"
    assert office.world.asked == ATTEMPTS
    office.world.status = []
    assert await office.alerting.deliveries.again(place) == 1
    await office.round()
    assert (await office.deliveries())[0].state == "delivered"
    assert len(office.world.slack) == 1


@pytest.mark.parametrize("status, words", [(404, "no_service"), (403, "action_prohibited"), (410, "archived")])
async def test_a_webhook_that_slack_does_not_know_is_given_up_at_once(office: Office, status: int, words: str) -> None:
    await office.place(Way.SLACK)
    office.world.status = [status]
    await trouble(office)
    [one] = await office.deliveries()
    assert (one.state, one.attempts) == ("dead", 1)
    assert words in one.error


async def test_a_redirect_is_not_followed(office: Office) -> None:
    await office.place(Way.SLACK)
    office.world.status = [302]
    await trouble(office)
    [one] = await office.deliveries()
    assert one.state == "dead"
    assert "redirects are not followed" in one.error
    assert office.world.asked == 1


async def test_who_is_too_fast_waits_with_everything(office: Office) -> None:
    await office.place(Way.SLACK)
    office.world.status = [429]
    await office.archive.run("UPDATE channels SET status = 'dead'")
    await office.round()
    assert office.world.asked == 1, "the second waits too"
    waiting = await office.deliveries()
    assert {one.state for one in waiting} == {"waiting"}
    assert {one.attempts for one in waiting} == {0}, "it was no failure"
    assert all(one.due_at > utc_now() + timedelta(seconds=20) for one in waiting)
    await office.due_now()
    await office.round()
    assert len(office.world.slack) == 2


async def test_pagerduty_says_what_is_wrong(office: Office) -> None:
    await office.place(Way.PAGERDUTY)
    office.world.status = [429, 500, 400]
    await trouble(office)
    for state in ("waiting", "waiting", "dead"):
        [one] = await office.deliveries()
        assert one.state == state
        await office.due_now()
        await office.round()
    assert "invalid event" in one.error


async def test_an_end_is_not_sent_before_its_beginning(office: Office) -> None:
    await office.place(Way.PAGERDUTY)
    office.world.status = [500]
    await trouble(office)
    await office.archive.run("UPDATE channels SET status = 'active' WHERE id = 100")
    await office.round()
    assert office.world.pagerduty == []
    await office.due_now()
    await office.round()
    await office.round()
    assert [one["event_action"] for one in office.world.pagerduty] == ["trigger", "resolve"]


async def test_a_place_that_hangs_does_not_hold_up_the_others(office: Office) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        allow = frozenset({("127.0.0.1", port), ("127.0.0.1", office.world.port)})
        poster = Poster(agent="test", allow=allow, seconds=0.3)
        object.__setattr__(office.alerting.places, "poster", poster)
        await office.desk.add(Way.SLACK, f"http://127.0.0.1:{port}/services/x")
        await office.place(Way.SLACK)
        await trouble(office)
    assert len(office.world.slack) == 1
    hung = next(one for one in await office.deliveries() if one.state == "waiting")
    assert "did not answer within" in hung.error


async def test_a_secret_of_another_installation_is_told(office: Office) -> None:
    await office.place(Way.SLACK)
    office.alerting.sealer = Sealer("another")
    await trouble(office)
    [one] = await office.deliveries()
    assert one.state == "dead"
    assert "set this place anew" in one.error


async def test_places_that_are_off_or_want_something_else_get_nothing(office: Office) -> None:
    off = await office.place(Way.SLACK)
    await office.alerting.channels.change(off, enabled=False)
    await office.place(Way.PAGERDUTY, Topic.STORAGE)
    await trouble(office)
    assert await office.deliveries() == []
    await office.alerting.channels.change(off, enabled=True)
    await office.round()
    assert await office.deliveries() == [], "what happened while it was off is not sent afterwards"


async def test_trying_a_place(office: Office) -> None:
    slack, pagerduty = await office.place(Way.SLACK), await office.place(Way.PAGERDUTY)
    await office.desk.test(slack)
    await office.desk.test(pagerduty)
    assert len(office.world.slack) == 1
    assert [one["event_action"] for one in office.world.pagerduty] == ["trigger", "resolve"]
    office.world.status = [404]
    with pytest.raises(Reject, match="no_service"):
        await office.desk.test(slack)


@pytest.mark.parametrize(
    "kind, value",
    [
        (Way.SLACK, "http://hooks.slack.com/services/T/B/x"),
        (Way.SLACK, "https://hooks.slack.com.evil.example/services/T/B/x"),
        (Way.SLACK, "https://example.org/services/T/B/x"),
        (Way.SLACK, "https://127.0.0.1/services/T/B/x"),
        (Way.SLACK, "https://10.0.0.1/"),
        (Way.SLACK, "https://hooks.slack.com@evil.example/"),
        (Way.SLACK, "ftp://hooks.slack.com/x"),
        (Way.SLACK, "x" * 100_000),
        (Way.SLACK, ""),
        (Way.PAGERDUTY, ""),
        (Way.PAGERDUTY, "short"),
        (Way.PAGERDUTY, "0" * 31 + "\n"),
        (Way.PAGERDUTY, "ы" * 32),
        (Way.WEBHOOK, "http://169.254.169.254/latest"),
        (Way.WEBHOOK, "http://localhost/"),
    ],
)
def test_what_is_no_place(kind: Way, value: str) -> None:
    with pytest.raises(Reject):
        open_places(Settings(), utc_now).read(kind, value)


def test_a_real_address_of_slack_is_taken_and_not_shown() -> None:
    secret, hint = open_places(Settings(), utc_now).read(Way.SLACK, " https://hooks.slack.com/services/T0/B0/secret99 ")
    assert secret == {"url": "https://hooks.slack.com/services/T0/B0/secret99"}
    assert hint == "hooks.slack.com…et99"


async def test_a_name_that_leads_inside_is_found_out_when_it_is_asked() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    poster = Poster(agent="test", resolve=resolve)
    with pytest.raises((Reject, Retry), match=r"127\.0\.0\.1"):
        await poster.post(poster.checked("https://hooks.slack.com/services/T/B/x"), b"{}")


def test_loopback_is_host_and_port() -> None:
    assert loopback("") == frozenset()
    assert loopback("127.0.0.1:80, [::1]:81") == {("127.0.0.1", 80), ("::1", 81)}
    with pytest.raises(Fatal):
        loopback("127.0.0.1")


async def test_not_more_places_than_allowed(office: Office) -> None:
    for _ in range(MOST_CHANNELS):
        await office.place(Way.SLACK)
    with pytest.raises(Reject, match="remove one first"):
        await office.place(Way.SLACK)


async def test_five_hundred_trackers_with_or_and_minus_make_one_message(
    office: Office, redis: Any, lexicon: Lexicon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keyword trackers are saved searches: each finds its own, and a place hears of a post once."""
    monkeypatch.setattr("telegram_assistant.search.alerts.FRESH", timedelta(days=36_500))
    alerts = open_alerts(
        office.archive.database, redis, Sealer("key"), Webhooks(Poster(agent="t"), utc_now), owner="t", lexicon=lexicon
    )
    await office.place(Way.SLACK)
    users = [office.user]
    for number in range(4):
        made = await office.archive.rows("SELECT gen_random_uuid() AS id")
        await office.archive.run(
            "INSERT INTO users (id, tenant_id, name, role) VALUES (:id, :tenant, :name, 'member')",
            id=made[0].id,
            tenant=SYSTEM,
            name=f"user {number}",
        )
        users.append(made[0].id)
    for user in users:
        for number in range(MOST_SEARCHES):
            await alerts.saved.add(SYSTEM, user, f"tracker {number}", f"нефть OR газ -футбол -token{number}")
        with pytest.raises(Reject, match="remove one first"):
            await alerts.saved.add(SYSTEM, user, "one too many", "нефть")
    await office.archive.run("UPDATE saved_searches SET created_at = :at", at=POSTED - timedelta(hours=1))
    await office.archive.post(1, "газ подорожал, token7")
    await office.archive.post(2, "нефть и футбол")
    await office.archive.post(3, "погода")
    assert await alerts.look() == 500 - 5, "those without token7"
    await office.round()
    [message] = office.world.slack
    assert "tracker 0, tracker 1" in message["text"]
    assert len(await office.deliveries()) == 1
    assert OF_ONE < 500
