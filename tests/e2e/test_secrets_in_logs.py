"""Every secret has a value that can be recognised; things go well and badly; no output may hold any of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from telegram_assistant.config import Settings
from telegram_assistant.embedded.process import free_port
from telegram_assistant.http.dependencies import COOKIE
from tests.integration.bot.bot_api import TOKEN, BotApi, Person

pytestmark = pytest.mark.e2e

Starter = Any  # of conftest.py, which cannot be imported

MARK = "Zq7Secret"
SECRETS = {
    "TGA_SECRET_KEY": f"{MARK}-sessions-key",
    "OPENAI_API_KEY": f"sk-{MARK}-openai",
    "GIGACHAT_CREDENTIALS": f"{MARK}GigaChat0000",
    "SMTP_PASSWORD": f"{MARK}-smtp",
    "TELEGRAM_BOT_TOKEN": TOKEN,
    "BOT_WEBHOOK_SECRET": f"{MARK}-bot-webhook",
    "NEO4J_PASSWORD": f"{MARK}-neo4j",
    "QDRANT_API_KEY": f"{MARK}-qdrant",
    "MEDIA_S3_SECRET_ACCESS_KEY": f"{MARK}-s3",
    "TGA_API_KEY": f"tga_{MARK}-mcp",
}
PASSWORD, WRONG = f"{MARK}-correct-horse-battery", f"{MARK}-wrong-password"
SLACK = f"T000/{MARK}/slack"
PAGERDUTY = (MARK + "0" * 32)[:32]
# Secrets that the tests below give to processes of their own.
ELSEWHERE = {"DATABASE_URL", "PROXY_URL", "REDIS_URL", "TELEGRAM_API_HASH", "TELEGRAM_PROXY", "TELEGRAM_SESSION"}


def test_every_secret_setting_is_tried() -> None:
    kept = {name.upper() for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert kept == set(SECRETS) | ELSEWHERE
    named = re.compile(r"(password|secret|token|api_key|credentials|_hash|session)$")
    shown = {name for name, field in Settings.model_fields.items() if named.search(name)} - {n.lower() for n in kept}
    assert not shown, "these are read by everybody who sees the settings: make them SecretStr"
    settings: Any = {name.lower(): SecretStr(value) for name, value in SECRETS.items()}
    assert MARK not in repr(Settings(**settings))


@asynccontextmanager
async def unkind() -> AsyncIterator[int]:
    """A server that is every provider at once, and refuses all of them in the words of what it was told."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        said = next((line for line in head.decode().split("\r\n") if line.lower().startswith("authorization:")), "")
        masked = said[-4:]  # as OpenAI does
        body = json.dumps({"error": {"message": f"Incorrect API key provided: ****{masked}"}}).encode()
        status = b"500 Oops" if b"/slack" in head or b"/T000" in head else b"401 Unauthorized"
        kind = b"Content-Type: application/json\r\nConnection: close"
        writer.write(b"HTTP/1.1 %b\r\n%b\r\nContent-Length: %d\r\n\r\n%b" % (status, kind, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Witness:
    """Uses the pages and the API, and keeps every answer that is not the one place where a secret is shown."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.heard: dict[str, str] = {}
        self.secrets: dict[str, str] = {"password": PASSWORD, "wrong password": WRONG}

    async def ask(self, status: int, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, (path, answer.text)
        self.heard[f"{method} {path} {len(self.heard)}"] = f"{answer.status_code} {answer.headers} {answer.text}"
        return answer

    async def told(self, method: str, path: str, name: str, field: str, **options: Any) -> dict[str, Any]:
        """An answer that shows a secret once, as it should."""
        answer = await self.client.request(method, path, **options)
        assert answer.is_success, answer.text
        said: dict[str, Any] = answer.json()
        assert said[field]
        self.secrets[name] = said[field]
        return said

    async def sign_in(self, welcome: str) -> None:
        token = welcome.partition("token=")[2]
        await self.ask(410, "POST", "/welcome", data={"token": "x", "login": "boss", "password": WRONG})
        answer = await self.client.post("/welcome", data={"token": token, "login": "boss", "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        self.secrets["session cookie"] = self.client.cookies[COOKIE]
        await self.ask(422, "POST", "/sign-in", data={"login": "boss", "password": WRONG})
        self.client.cookies.clear()
        answer = await self.client.post("/sign-in", data={"login": "boss", "password": PASSWORD})
        assert answer.status_code == 303
        self.secrets["second cookie"] = self.client.cookies[COOKIE]


async def until(true: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(3000):
        if await true():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"it did not come: {what}")


async def go_wrong(witness: Witness, key: str, port: int) -> None:
    """What people and machines get wrong, and what fails for them."""
    bearer = {"Authorization": f"Bearer {key}"}
    telegram = {"X-Telegram-Bot-Api-Secret-Token": SECRETS["BOT_WEBHOOK_SECRET"]}
    await witness.ask(401, "GET", "/api/v1/me", headers={"Authorization": f"Bearer {key}x"})
    await witness.ask(401, "GET", "/api/v1/me", headers={"Authorization": f"Basic {PASSWORD}"})
    await witness.ask(422, "POST", "/api/v1/keys", headers=bearer, json={"name": {"odd": PASSWORD}})
    await witness.ask(422, "POST", "/api/v1/keys", headers=bearer, content=f'{{"name": "{PASSWORD}')
    await witness.ask(404, "POST", "/bot/webhook", headers=telegram)
    answer = await witness.ask(201, "POST", "/api/v1/saved-searches", headers=bearer, json={"query": "нефть"})
    hook = f"/api/v1/saved-searches/{answer.json()['id']}/webhook"
    url = f"http://127.0.0.1:{port}/hook"
    await witness.told("PUT", hook, "webhook secret", "secret", headers=bearer, json={"url": url})
    await witness.ask(409, "POST", f"{hook}/test", headers=bearer)
    for kind, value in (("slack", f"http://127.0.0.1:{port}/{SLACK}"), ("pagerduty", PAGERDUTY)):
        wish = {"kind": kind, "name": kind, "value": value}
        place = (await witness.ask(201, "POST", "/api/v1/alert-places", headers=bearer, json=wish)).json()
        await witness.ask(409, "POST", f"/api/v1/alert-places/{place['id']}/test", headers=bearer)


def written(data: Path) -> dict[str, str]:
    """What lies in files of logs."""
    return {
        str(path): path.read_text(encoding="utf-8", errors="replace")
        for path in data.glob("log/**/*")
        if path.is_file()
    }


def kept_in(data: Path) -> dict[str, str]:
    """Secrets that were made: passwords of the engines, keys, the session of the simulated Telegram."""
    made = {path.name: path.read_text(encoding="utf-8").strip() for path in (data / "keys").iterdir() if path.is_file()}
    running = json.loads(made.pop("running.json"))
    telegram = running.get("telegram") or {}
    made |= {f"demo {name}": str(value) for name, value in telegram.items() if "session" in name or "hash" in name}
    return {name: value for name, value in made.items() if len(value) >= 16}


def search(secrets: dict[str, str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name} is in {where}: …{text[max(0, text.index(secret) - 200) :][:300]}…"
        for name, secret in secrets.items()
        for where, text in texts.items()
        if secret in text
    ]


async def test_nothing_that_is_written_holds_a_secret(start: Starter) -> None:
    async with BotApi().serve() as bot, unkind() as port:
        settings = {
            **SECRETS,
            "LOG_LEVEL": "DEBUG",
            "LOG_FORMAT": "json",
            "TELEGRAM_BOT_API_URL": bot.url,
            "AI_TAG_PROVIDER": "openai",
            "AI_ANSWER_PROVIDER": "openai",
            "AI_VISION_PROVIDER": "gigachat",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "GIGACHAT_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "GIGACHAT_AUTH_URL": f"http://127.0.0.1:{port}/oauth",
            "NEO4J_URL": f"bolt://127.0.0.1:{free_port()}",
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(free_port()),
            "SMTP_USER": "tga",
            "ALERT_LOOPBACK": f"127.0.0.1:{port}",
            "PAGERDUTY_URL": f"http://127.0.0.1:{port}/pagerduty",
        }
        tga = await start(**settings)
        await tga.ready()
        assert tga.process.stdout is not None
        welcome = ""
        async with asyncio.timeout(300):
            while "token=" not in welcome:
                welcome = (await tga.process.stdout.readline()).decode()
        pages = welcome.split()[-1].partition("/welcome")[0]
        async with httpx.AsyncClient(base_url=pages, trust_env=False, timeout=300) as client:
            witness = Witness(client)
            await witness.sign_in(welcome.split()[-1])
            page = (await client.get("/account")).text
            csrf = re.search(r'name="csrf" value="([^"]+)"', page)
            assert csrf
            headers = {"X-CSRF-Token": csrf[1]}
            wish = {"name": "mine", "role": "admin"}
            said = await witness.told("POST", "/api/v1/keys", "API key", "token", headers=headers, json=wish)
            client.cookies.clear()
            await go_wrong(witness, said["token"], port)
            async with asyncio.timeout(300):
                await Person(bot, 999).asks("/start")

            async def refused() -> bool:
                """The model was asked, and said no."""
                return "401" in tga.err()

            await until(refused, "a refusal of the model")
            bearer = {"Authorization": f"Bearer {said['token']}"}
            question: dict[str, Any] = {"headers": bearer, "json": {"question": "Что нового?"}}

            async def unanswered() -> bool:
                """There is a post to answer from, and nobody who does."""
                return (await client.post("/api/v1/ask", **question)).status_code == 503

            await until(unanswered, "a question that the model refuses")
            await witness.ask(503, "POST", "/api/v1/ask", **question)
            for path in ("/health/details", "/metrics", "/health", "/"):
                witness.heard[f"health {path}"] = (await client.get(f"{tga.url}{path}")).text
            for path in ("/api/v1/keys", "/api/v1/audit", "/api/v1/alert-places", "/api/v1/stages", "/metrics"):
                await witness.ask(200, "GET", path, headers=bearer)
        secrets = {**SECRETS, **witness.secrets, **kept_in(tga.data), "slack": SLACK, "pagerduty": PAGERDUTY}
        outcome = await tga.stop()
    assert outcome.code == 0, outcome.err
    assert len(outcome.err) > 1_000, "DEBUG says something"
    texts = {"stdout": outcome.out, "stderr": outcome.err, **written(tga.data), **witness.heard}
    assert search({"a word that is there": "visited"}, texts), "or else the next line shows nothing"
    assert search(secrets, texts) == []


@pytest.mark.parametrize(
    "settings,told",
    [
        ({"DATABASE_URL": "postgresql://me:{secret}@127.0.0.1:{dead}/tga"}, "Cannot use DATABASE_URL"),
        ({"DATABASE_URL": "postgresql://me:{secret}/x@127.0.0.1/tga"}, "percent-encoded"),
        ({"REDIS_URL": "redis://:{secret}@127.0.0.1:{dead}/0"}, "Cannot use REDIS_URL"),
        ({"REDIS_URL": "redis://:{secret}/x@127.0.0.1/0"}, "REDIS_URL"),
        ({"TELEGRAM_API_HASH": "{secret}"}, "TELEGRAM_API_ID and TELEGRAM_API_HASH belong together"),
        (
            {"TELEGRAM_API_ID": "1", "TELEGRAM_API_HASH": "{secret}", "TELEGRAM_SESSION": "{secret}"},
            "TELEGRAM_SESSION",
        ),
        ({"PROXY_URL": "socks4://me:{secret}@127.0.0.1:{dead}"}, "SOCKS4 is not supported"),
        ({"TELEGRAM_PROXY": "tg://proxy?server=127.0.0.1&port={dead}&secret={secret}"}, "secret"),
        (
            {
                "MEDIA_URL": "s3://bucket",
                "MEDIA_S3_ENDPOINT": "http://127.0.0.1:{port}",
                "MEDIA_S3_ACCESS_KEY_ID": "me",
                "MEDIA_S3_SECRET_ACCESS_KEY": "{secret}",
            },
            "media store",
        ),
    ],
    ids=["database", "broken database", "redis", "broken redis", "hash alone", "session", "proxy", "MTProxy", "s3"],
)
async def test_a_start_that_fails_names_no_secret(start: Starter, settings: dict[str, str], told: str) -> None:
    async with unkind() as port:
        known = {"secret": f"{MARK}-start", "port": port, "dead": free_port()}
        filled = {name: value.format(**known) for name, value in settings.items()}
        outcome = await (await start(LOG_LEVEL="DEBUG", **filled)).end()
    assert outcome.code == 1
    assert told in outcome.err
    assert MARK not in outcome.out + outcome.err
