"""A server that speaks Telegram's Bot API over HTTP on loopback, with people who write to bots, and its errors."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import aiohttp
from aiohttp import web

from tests.integration.bot.markup import BadMarkup, read, units

TOKEN = "4242:AAE-a-token-of-a-test-000000000000000"
USERNAME = "of_a_test_bot"
LONGEST = 4_096
METHODS = {
    "getMe": "_get_me",
    "getUpdates": "_get_updates",
    "setWebhook": "_set_webhook",
    "deleteWebhook": "_delete_webhook",
    "setMyCommands": "_set_my_commands",
    "sendChatAction": "_send_chat_action",
    "sendMessage": "_send_message",
    "editMessageText": "_edit_message_text",
    "answerCallbackQuery": "_answer_callback_query",
    "answerInlineQuery": "_answer_inline_query",
}


class Refusal(Exception):
    """What the server says instead of doing it."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters


@dataclass
class Message:
    """Something the bot has said."""

    chat_id: int
    message_id: int
    html: str
    text: str
    links: list[str]
    buttons: list[dict[str, Any]]
    plain: bool = False  # it came without markup
    edits: int = 0

    def button(self, words: str) -> dict[str, Any]:
        return next(one for one in self.buttons if words in one["text"])

    def has_button(self, words: str) -> bool:
        return any(words in one["text"] for one in self.buttons)


@dataclass
class Calls:
    """What was asked of the server, in its order."""

    of: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def add(self, method: str, call: dict[str, Any]) -> None:
        async with self.changed:
            self.of[method].append(call)
            self.changed.notify_all()

    async def until(self, method: str, number: int) -> list[dict[str, Any]]:
        """Wait until it was called so often."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.of[method]) >= number)
            return self.of[method]


class BotApi:
    """One bot, any number of chats."""

    def __init__(self) -> None:
        self.url = ""
        self.calls = Calls()
        self.messages: dict[int, Message] = {}
        self.spoken: dict[int, list[Message]] = defaultdict(list)
        self.toasts: dict[str, str] = {}
        self.inline: dict[str, dict[str, Any]] = {}
        self.blocked: set[int] = set()
        self.flooded: set[int] = set()  # chats that got too much
        self.chats: set[int] = set()  # whoever has written to the bot
        self.faults: dict[str, deque[Refusal]] = defaultdict(deque)
        self.webhook: dict[str, Any] = {}
        self.commands: dict[str, list[dict[str, str]]] = {}
        self.confirmed: list[int] = []
        self.delivered: list[tuple[int, int]] = []  # to the webhook: update, status of the answer
        self.reachable = True
        self.updates: deque[dict[str, Any]] = deque()  # that nobody has confirmed
        self.slow: dict[int, asyncio.Event] = {}  # chats to which a message takes until this is set
        self._ids, self._message_ids = count(1000), count(1)
        self._queries: set[str] = set()
        self._news = asyncio.Condition()
        self._polling = 0
        self._client: aiohttp.ClientSession | None = None

    def fail(self, method: str, status: int, description: str, *, times: int = 1, **parameters: int) -> None:
        """The next calls of a method are refused."""
        self.faults[method] += [Refusal(status, description, **parameters)] * times

    @property
    def waiting(self) -> int:
        """Updates that nobody has confirmed."""
        return len(self.updates)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[BotApi]:
        app = web.Application()
        app.router.add_post("/bot{token}/{method}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        async with aiohttp.ClientSession() as self._client:
            try:
                yield self
            finally:
                await runner.cleanup()

    # What people do

    async def update(self, **content: Any) -> int:
        """Something happens; by webhook it is brought to the bot, at least until it answers 2xx."""
        number = next(self._ids)
        found = {"update_id": number, **content}
        async with self._news:
            self.updates.append(found)
            self._news.notify_all()
        if self.webhook.get("url"):
            await self.bring()
        return number

    async def bring(self) -> None:
        """What waits, to the webhook."""
        assert self._client is not None
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.webhook.get("secret_token", "")}
        for update in list(self.updates):
            async with self._client.post(self.webhook["url"], json=update, headers=headers) as answer:
                self.delivered.append((update["update_id"], answer.status))
                if answer.status == 200:
                    self.updates.remove(update)

    def query_id(self) -> str:
        made = f"q{next(self._ids)}"
        self._queries.add(made)
        return made

    def message_id(self) -> int:
        return next(self._message_ids)

    async def heard(self, chat_id: int, number: int) -> Message:
        """The number-th thing that was said in a chat, from 1; waited for."""
        async with self.calls.changed:
            await self.calls.changed.wait_for(lambda: len(self.spoken[chat_id]) >= number)
        return self.spoken[chat_id][number - 1]

    # The server

    async def _handle(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        given: dict[str, Any] = {}
        for key, value in (await request.post()).items():
            given[key] = str(value)
        try:
            self._admit(request.match_info["token"], method)
            result = await getattr(self, METHODS[method])(given)
        except Refusal as refusal:
            await self.calls.add(f"{method}:refused", {**given, "status": refusal.status})
            answer: dict[str, Any] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
            if refusal.parameters:
                answer["parameters"] = refusal.parameters
            return web.json_response(answer, status=refusal.status)
        await self.calls.add(method, given)
        return web.json_response({"ok": True, "result": result})

    def _admit(self, token: str, method: str) -> None:
        if not self.reachable:
            raise Refusal(502, "Bad Gateway")
        if token != TOKEN:
            raise Refusal(401, "Unauthorized")
        if self.faults[method]:
            raise self.faults[method].popleft()
        if method not in METHODS:
            raise Refusal(404, "Not Found: method not found")

    async def _get_me(self, _: dict[str, Any]) -> object:
        return {"id": 4242, "is_bot": True, "first_name": "Of a test", "username": USERNAME}

    async def _get_updates(self, given: dict[str, Any]) -> object:
        if self.webhook.get("url"):
            raise Refusal(409, "Conflict: can't use getUpdates method while webhook is active")
        offset = int(given.get("offset", 0))
        while offset and self.updates and self.updates[0]["update_id"] < offset:
            self.confirmed.append(self.updates.popleft()["update_id"])
        self._polling += 1
        mine = self._polling
        async with self._news:
            self._news.notify_all()  # the newer one ends the older one
            try:
                async with asyncio.timeout(float(given.get("timeout", 0))):
                    await self._news.wait_for(lambda: self.updates or self._polling != mine)
            except TimeoutError:
                pass
        if self._polling != mine:
            raise Refusal(409, "Conflict: terminated by other getUpdates request; make sure that only one runs")
        return list(self.updates)[: int(given.get("limit", 100))]

    async def _set_webhook(self, given: dict[str, Any]) -> object:
        self.webhook = given
        return True

    async def _delete_webhook(self, _: dict[str, Any]) -> object:
        self.webhook = {}
        return True

    async def _set_my_commands(self, given: dict[str, Any]) -> object:
        commands = json.loads(given["commands"])
        assert all(
            one["command"].replace("_", "").islower() and 1 <= len(one["description"]) <= 256 for one in commands
        )
        self.commands[given.get("language_code", "")] = commands
        return True

    async def _send_chat_action(self, given: dict[str, Any]) -> object:
        self._reach(int(given["chat_id"]))
        return True

    async def _send_message(self, given: dict[str, Any]) -> object:
        chat_id = int(given["chat_id"])
        if chat_id in self.slow:
            await self.slow[chat_id].wait()
        self._reach(chat_id)
        message = self._said(given, Message(chat_id, self.message_id(), "", "", [], []))
        self.messages[message.message_id] = message
        self.spoken[chat_id].append(message)
        return _json(message)

    async def _edit_message_text(self, given: dict[str, Any]) -> object:
        message = self.messages.get(int(given["message_id"]))
        self._reach(int(given["chat_id"]))
        if message is None or message.chat_id != int(given["chat_id"]):
            raise Refusal(400, "Bad Request: message to edit not found")
        buttons = _buttons(given)
        if (message.html, message.buttons) == (given["text"], buttons):
            raise Refusal(400, "Bad Request: message is not modified: specified new message content is the same")
        self._said(given, message)
        message.edits += 1
        return _json(message)

    async def _answer_callback_query(self, given: dict[str, Any]) -> object:
        self._answered(given["callback_query_id"])
        self.toasts[given["callback_query_id"]] = given.get("text", "")
        return True

    async def _answer_inline_query(self, given: dict[str, Any]) -> object:
        self._answered(given["inline_query_id"])
        results = json.loads(given.get("results") or "[]")
        if len(results) > 50 or len({one["id"] for one in results}) != len(results):
            raise Refusal(400, "Bad Request: RESULTS_TOO_MUCH")
        if len(given.get("next_offset", "").encode()) > 64 or any(len(one["id"].encode()) > 64 for one in results):
            raise Refusal(400, "Bad Request: NEXT_OFFSET_INVALID")
        for one in results:
            self._text(one["input_message_content"]["message_text"], parse_mode="HTML")
        self.inline[given["inline_query_id"]] = {
            "results": results,
            "next": given.get("next_offset", ""),
            "personal": given.get("is_personal") == "true",
            "button": json.loads(given.get("button") or "{}"),
        }
        return True

    def _answered(self, query: str) -> None:
        if query not in self._queries:
            raise Refusal(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        self._queries.discard(query)

    def _reach(self, chat_id: int) -> None:
        if chat_id in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        if chat_id in self.flooded:
            raise Refusal(429, "Too Many Requests: retry after 300", retry_after=300)
        if chat_id not in self.chats:
            raise Refusal(400, "Bad Request: chat not found")

    def _said(self, given: dict[str, Any], message: Message) -> Message:
        message.text, message.links = self._text(given["text"], given.get("parse_mode"))
        message.html, message.buttons, message.plain = given["text"], _buttons(given), "parse_mode" not in given
        return message

    def _text(self, html: str, parse_mode: str | None) -> tuple[str, list[str]]:
        try:
            text, links = read(html) if parse_mode else (html, [])
        except BadMarkup as exc:
            raise Refusal(400, f"Bad Request: can't parse entities: {exc}") from exc
        if not text.strip():
            raise Refusal(400, "Bad Request: message text is empty")
        if units(text) > LONGEST:
            raise Refusal(400, "Bad Request: message is too long")
        return text, links


def _buttons(given: dict[str, Any]) -> list[dict[str, Any]]:
    found = [one for row in json.loads(given.get("reply_markup") or "{}").get("inline_keyboard", []) for one in row]
    for one in found:
        if len(one.get("callback_data", "").encode()) > 64 or not one["text"].strip():
            raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return found


def _json(message: Message) -> dict[str, Any]:
    chat = {"id": message.chat_id, "type": "private"}
    return {"message_id": message.message_id, "date": 1_790_000_000, "chat": chat, "text": message.text}


class Person:
    """Somebody with Telegram."""

    def __init__(self, api: BotApi, number: int, language: str = "en") -> None:
        self.api = api
        self.id = number
        self._language = language
        self._heard = 0

    @property
    def _user(self) -> dict[str, Any]:
        return {"id": self.id, "is_bot": False, "first_name": "Ann", "language_code": self._language}

    @property
    def _chat(self) -> dict[str, Any]:
        return {"id": self.id, "type": "private", "first_name": "Ann"}

    async def says(self, text: str, **fields: Any) -> int:
        self.api.chats.add(self.id)
        message: dict[str, Any] = {
            "message_id": self.api.message_id(),
            "date": 1_790_000_000,
            "chat": self._chat,
            "from": self._user,
        }
        if text:
            message["text"] = text
        if text.startswith("/"):
            length = len(text.split(maxsplit=1)[0])
            message["entities"] = [{"type": "bot_command", "offset": 0, "length": length}]
        return await self.api.update(message={**message, **fields})

    async def forwards(self, origin: dict[str, Any], text: str = "News", **fields: Any) -> int:
        return await self.says(text, forward_origin={"date": 1_780_000_000, **origin}, **fields)

    async def presses(self, message: Message, words: str) -> str:
        """The id of what comes back over the button."""
        return await self.sends_data(message, message.button(words)["callback_data"])

    async def sends_data(self, message: Message, data: str) -> str:
        query = self.api.query_id()
        below = {**_json(message), "chat": self._chat}
        await self.api.update(
            callback_query={
                "id": query,
                "from": self._user,
                "chat_instance": "1",
                "data": data,
                "message": below,
            }
        )
        return query

    async def toast(self, query: str) -> str:
        async with self.api.calls.changed:
            await self.api.calls.changed.wait_for(lambda: query in self.api.toasts)
        return self.api.toasts[query]

    async def types(self, query: str, offset: str = "") -> dict[str, Any]:
        """An inline query, and what it brings."""
        number = self.api.query_id()
        await self.api.update(inline_query={"id": number, "from": self._user, "query": query, "offset": offset})
        async with self.api.calls.changed:
            await self.api.calls.changed.wait_for(lambda: number in self.api.inline)
        return self.api.inline[number]

    async def hears(self) -> Message:
        """What the bot says next in this chat."""
        self._heard += 1
        return await self.api.heard(self.id, self._heard)

    async def asks(self, text: str) -> Message:
        await self.says(text)
        return await self.hears()

    async def blocks(self, *, blocked: bool = True) -> None:
        (self.api.blocked.add if blocked else self.api.blocked.discard)(self.id)
        old, new = ("member", "kicked") if blocked else ("kicked", "member")
        bot = {"id": 4242, "is_bot": True, "first_name": "Of a test"}
        await self.api.update(
            my_chat_member={
                "chat": self._chat,
                "from": self._user,
                "date": 1_790_000_000,
                "old_chat_member": {"status": old, "user": bot, "until_date": 0},
                "new_chat_member": {"status": new, "user": bot, "until_date": 0},
            }
        )
