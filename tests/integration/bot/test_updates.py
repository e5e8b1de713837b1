"""No update is lost or answered twice: restarts, crashes, two bots on one token, webhooks, Telegram's refusals."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from redis.asyncio import Redis

from telegram_assistant.bus.supervisor import Supervisor, TaskState
from telegram_assistant.errors import Fatal
from telegram_assistant.http.app import make_app
from telegram_assistant.http.serving import serve
from telegram_assistant.services.bot_link import webhook_secret
from telegram_assistant.services.bot_state import MOST_TRIES, Inbox, in_work_key, inbox_key, update_in
from telegram_assistant.services.services import Services
from tests.integration.bot.bot_api import TOKEN, BotApi, Person
from tests.integration.bot.conftest import running

pytestmark = pytest.mark.integration

BOT = 4242
SECRET = webhook_secret(TOKEN, None)


def texts(api: BotApi, person: Person) -> list[str]:
    return [one.text for one in api.spoken[person.id]]


async def test_what_is_said_while_the_bot_is_down_is_answered_once(
    services: Services, api: BotApi, ann: Person, tmp_path: Path
) -> None:
    for round_ in range(3):
        for number in range(5):
            await ann.says(f"/nonsense_{round_}_{number}")
        async with running(services, tmp_path):
            await api.heard(ann.id, 5 * (round_ + 1))
    assert len(texts(api, ann)) == 15


async def test_answers_come_in_the_order_of_the_questions(
    services: Services, api: BotApi, ann: Person, tmp_path: Path
) -> None:
    for number in range(12):
        await ann.says(f"/search thing{number}")
    async with running(services, tmp_path):
        await api.heard(ann.id, 12)
    assert [text.partition(":")[0] for text in texts(api, ann)] == [f"thing{number}" for number in range(12)]


async def test_a_stop_in_the_midst_lets_the_answer_be_finished(
    services: Services, api: BotApi, ann: Person, tmp_path: Path
) -> None:
    async with running(services, tmp_path):
        api.fail("sendMessage", 429, "Too Many Requests: retry after 1", retry_after=1)
        await ann.says("/menu")
        await api.calls.until("sendMessage:refused", 1)
    assert len(texts(api, ann)) == 1
    async with running(services, tmp_path):
        await ann.asks("/help")
        await ann.hears()
    assert len(texts(api, ann)) == 2


async def test_what_a_dead_process_had_begun_is_done_by_the_next(
    services: Services, api: BotApi, redis: Redis, ann: Person, tmp_path: Path
) -> None:
    inbox = Inbox(redis, BOT)
    await ann.says("/menu")
    await ann.says("/help")
    for update in list(api.updates):
        assert await inbox.put(update)
    begun = await inbox.take(wait=1)  # and here the process died, with one in work and none confirmed
    assert begun is not None
    assert update_in(begun)["message"]["text"] == "/menu"
    async with running(services, tmp_path):
        await api.heard(ann.id, 2)
        await ann.types("x")  # so all before it was seen
    assert [text.split()[0] for text in texts(api, ann)] == ["What", "Ask:"]
    assert await redis.llen(inbox_key(BOT)) == await redis.llen(in_work_key(BOT)) == 0


async def test_an_update_that_kills_is_left_alone(redis: Redis) -> None:
    inbox = Inbox(redis, BOT)
    await inbox.put({"update_id": 1})
    for _ in range(MOST_TRIES):
        assert await inbox.take(wait=1) is not None
        assert await inbox.recover() == 1
    assert await redis.llen(inbox_key(BOT)) == 0
    assert not await inbox.put({"update_id": 1})


async def test_what_could_not_be_written_down_is_not_confirmed(
    api: BotApi, ann: Person, bot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ann.asks("/menu")
    with monkeypatch.context() as patched:
        patched.setattr("telegram_assistant.services.bot_state.MOST_WAITING", 0)
        failures = bot.runtime.supervisor.tasks["bot_updates"].restarts
        await ann.says("/help")
        calls = len(api.calls.of["getUpdates"])
        await api.calls.until("getUpdates", calls + 2)
        assert bot.runtime.supervisor.tasks["bot_updates"].restarts > failures
        assert (api.waiting, api.confirmed) == (1, [1000])
    await ann.hears()
    assert len(texts(api, ann)) == 2


async def test_a_second_bot_of_ours_waits_for_its_turn(
    services: Services, api: BotApi, ann: Person, bot: Any, tmp_path: Path
) -> None:
    other = replace(services, settings=services.settings.model_copy(update={"hostname": "another"}))
    async with running(other, tmp_path) as second:
        for number in range(3):
            await ann.asks(f"/nonsense{number}")
        assert second.runtime.supervisor.tasks["bot"].state is TaskState.OK
        assert not second.role.working.turn.is_set()
        assert bot.role.working.turn.is_set()
    assert len(texts(api, ann)) == 3
    assert api.calls.of["getUpdates:refused"] == []


async def test_a_stranger_on_our_token_is_told_of_and_survived(api: BotApi, ann: Person, bot: Any) -> None:
    """409: another program polls with the same token."""
    api.fail("getUpdates", 409, "Conflict: terminated by other getUpdates request", times=4)
    await ann.says("/menu")
    await api.calls.until("getUpdates:refused", 4)
    task = bot.runtime.supervisor.tasks["bot_updates"]
    assert "another program asks Telegram" in task.last_error
    assert (await ann.hears()).text
    assert bot.runtime.supervisor.tasks["bot"].state is TaskState.OK


async def test_really_two_on_one_token(services: Services, api: BotApi, ann: Person, bot: Any, tmp_path: Path) -> None:
    """Each ends the other's call; still nothing is answered twice, because both write into one inbox."""
    other = replace(services, settings=services.settings.model_copy(update={"hostname": "another"}))
    async with running(other, tmp_path) as second:
        second.role.working.turn.set()  # as if it had never heard of the lock
        await api.calls.until("getUpdates:refused", 1)
        for number in range(3):
            await ann.asks(f"/nonsense{number}")
        await ann.types("x")
    assert bot.role.working.turn.is_set()
    assert len(texts(api, ann)) == 3


async def test_a_wrong_token_stops_the_start_with_a_sentence(services: Services, tmp_path: Path) -> None:
    wrong = services.settings.model_copy(update={"telegram_bot_token": SecretStr("4242:wrong-s3cret")})
    with pytest.raises(Fatal, match="does not know TELEGRAM_BOT_TOKEN") as caught:
        async with running(replace(services, settings=wrong), tmp_path):
            pass
    assert "s3cret" not in str(caught.value)
    none = services.settings.model_copy(update={"telegram_bot_token": None})
    with pytest.raises(Fatal, match="TELEGRAM_BOT_TOKEN is not set"):
        async with running(replace(services, settings=none), tmp_path):
            pass


async def test_telegram_away_does_not_keep_the_others_from_starting(
    services: Services, api: BotApi, ann: Person, tmp_path: Path
) -> None:
    api.reachable = False
    async with running(services, tmp_path) as bot:
        await api.calls.until("getMe:refused", 2)
        assert bot.runtime.supervisor.tasks["bot_updates"].state is not TaskState.OK
        assert "does not answer" in (bot.runtime.supervisor.tasks["bot_updates"].last_error or "")
        api.reachable = True
        assert (await ann.asks("/menu")).text


@pytest.mark.usefixtures("bot")
async def test_an_update_that_nobody_can_read_does_no_harm(api: BotApi, ann: Person) -> None:
    await api.update(message={"message_id": "no number", "from": "nobody"})
    await api.update(something_new={"from": {"id": ann.id}})
    await api.update()
    assert (await ann.asks("/menu")).text


# Webhook


@pytest.fixture
async def webhook_services(services: Services) -> AsyncIterator[tuple[Services, str]]:
    """The API on a port, which is where Telegram brings the updates."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = services.settings.model_copy(update={"bot_mode": "webhook", "api_public_url": address})
        changed = replace(services, settings=settings)
        async with served(make_app(changed), listener):
            yield changed, address


@asynccontextmanager
async def served(app: FastAPI, listener: socket.socket) -> AsyncIterator[None]:
    supervisor = Supervisor()
    await supervisor.start("api", partial(serve, app, listener))
    try:
        yield
    finally:
        await supervisor.stop()


async def test_by_webhook(webhook_services: tuple[Services, str], api: BotApi, ann: Person, tmp_path: Path) -> None:
    services, address = webhook_services
    async with running(services, tmp_path):
        (call,) = await api.calls.until("setWebhook", 1)
        assert call["url"] == f"{address}/bot/webhook"
        assert json.loads(call["allowed_updates"]) == ["message", "callback_query", "inline_query", "my_chat_member"]
        assert "What shall it be" in (await ann.asks("/menu")).text
        assert api.calls.of["getUpdates"] == []
    # The API alone keeps what comes, until a bot runs again.
    await ann.says("/help")
    assert api.delivered[-1][1] == 200
    assert len(texts(api, ann)) == 1
    async with running(services, tmp_path):
        await api.heard(ann.id, 2)


async def test_a_webhook_that_is_brought_twice_is_answered_once(
    webhook_services: tuple[Services, str], api: BotApi, ann: Person, tmp_path: Path
) -> None:
    services, _ = webhook_services
    async with running(services, tmp_path):
        await api.calls.until("setWebhook", 1)
        await ann.says("/menu")
        await api.heard(ann.id, 1)
        update = {"update_id": api.delivered[0][0], "message": {}}
        api.updates.append(update)  # Telegram did not hear our 200
        await api.bring()
        assert api.delivered[-1] == (update["update_id"], 200)
        await ann.asks("/help")
        await ann.hears()
    assert len(texts(api, ann)) == 2


async def test_there_is_no_door_for_telegram_unless_asked_for(client_of: Any, redis: Redis) -> None:
    client = client_of()
    update = {"update_id": 1, "message": {"text": "/admin"}}
    assert (await client.post("/bot/webhook", json=update)).status_code == 404
    assert await redis.llen(inbox_key(BOT)) == 0


@pytest.mark.parametrize(
    "secret,body,status",
    [
        pytest.param("", b'{"update_id": 1}', 401, id="no secret"),
        pytest.param("wrong", b'{"update_id": 1}', 401, id="wrong secret"),
        pytest.param("wr\xf6ng", b'{"update_id": 1}', 401, id="no ASCII"),
        pytest.param(SECRET, b"no json", 400, id="no json"),
        pytest.param(SECRET, b"[1, 2]", 400, id="a list"),
        pytest.param(SECRET, b'{"update_id": "1"}', 400, id="text"),
        pytest.param(SECRET, b'{"update_id": true}', 400, id="truth"),
        pytest.param(SECRET, b"[" * 100_000, 400, id="deep"),
        pytest.param(SECRET, b"x" * (2**20 + 1), 413, id="long"),
        pytest.param(SECRET, b'{"update_id": 1}', 200, id="good"),
    ],
)
async def test_what_comes_to_the_webhook_is_checked(
    webhook_services: tuple[Services, str], redis: Redis, secret: str, body: bytes, status: int
) -> None:
    _, address = webhook_services
    async with httpx.AsyncClient(timeout=60) as client:
        headers = [(b"X-Telegram-Bot-Api-Secret-Token", secret.encode("latin-1"))]
        answer = await client.post(f"{address}/bot/webhook", content=body, headers=headers)
    assert answer.status_code == status
    assert await redis.llen(inbox_key(BOT)) == (1 if status == 200 else 0)


async def test_a_full_inbox_sends_telegram_away(
    webhook_services: tuple[Services, str], redis: Redis, api: BotApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, address = webhook_services
    monkeypatch.setattr("telegram_assistant.services.bot_state.MOST_WAITING", 1)
    api.webhook = {"url": f"{address}/bot/webhook", "secret_token": SECRET}
    await ann.says("/menu")
    await ann.says("/help")
    assert [status for _, status in api.delivered] == [200, 503]
    await redis.delete(inbox_key(BOT))
    await api.bring()
    assert api.delivered[-1][1] == 200


async def test_webhooks_need_an_address(services: Services, tmp_path: Path) -> None:
    settings = services.settings.model_copy(update={"bot_mode": "webhook", "api_public_url": None})
    with pytest.raises(Fatal, match="API_PUBLIC_URL"):
        async with running(replace(services, settings=settings), tmp_path):
            pass


@pytest.mark.usefixtures("bot")
async def test_one_who_waits_does_not_hold_up_others(api: BotApi, ann: Person, bob: Person) -> None:
    """A chat in which Telegram lets us wait is no reason for another to wait."""
    api.slow[ann.id] = asyncio.Event()
    await ann.says("/menu")
    assert (await bob.asks("/menu")).text
    assert texts(api, ann) == []
    api.slow[ann.id].set()
    assert (await ann.hears()).text
