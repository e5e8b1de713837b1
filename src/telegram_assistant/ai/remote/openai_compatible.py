"""Any server that speaks OpenAI's API: OpenAI, OpenRouter, vLLM, Ollama and others."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TypeVar

import httpx
import msgspec

from telegram_assistant.ai.remote.connections import OpenAiServer, Reply, VectorReply
from telegram_assistant.ai.remote.gate import Kind, Trouble
from telegram_assistant.ai.remote.prompts import Ask
from telegram_assistant.domain.retries import seconds_to_wait
from telegram_assistant.tls import verified_tls

PROVIDER = "openai"
_LARGEST_ANSWER = 32 * 2**20
_SHOWN = 300  # characters of a server's complaint


class _Output(IntEnum):
    """How the form of the answer is asked for: the best a server knows."""

    SCHEMA = 0
    JSON = 1
    WORDS = 2


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None  # anything: an answer that was paid for is not asked for again


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Vectors(msgspec.Struct):
    data: list[_Vector]
    usage: Any = None


_Content = TypeVar("_Content", _Completion, _Vectors)


class OpenAiConnection:
    """The connection, shared by the models of one server."""

    def __init__(self, server: OpenAiServer) -> None:
        self._timeout = server.timeout
        headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
        self._http = httpx.AsyncClient(
            base_url=server.base_url.rstrip("/") + "/",
            headers=headers,
            timeout=server.timeout,
            verify=verified_tls(server.ca_file),
        )

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """The answer's body. Raises Trouble."""
        try:
            # httpx limits each read, not the whole: a server that drips would hold us for ever.
            async with asyncio.timeout(self._timeout), self._http.stream("POST", path, json=body) as response:
                content = await _bounded(response)
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise Trouble(Kind.DOWN, f"no answer within {self._timeout:g} s") from exc
        except (httpx.HTTPError, OSError) as exc:  # TLS may fail after the handshake, and httpx lets that through
            raise Trouble(Kind.DOWN, f"no connection: {type(exc).__name__} {exc}") from exc
        except (httpx.InvalidURL, UnicodeError) as exc:
            raise Trouble(Kind.BLOCKED, f"the address of the server cannot be used: {exc}") from exc
        if response.status_code != httpx.codes.OK:
            raise trouble_of(response.status_code, _complaint(content), response.headers.get("retry-after"))
        return content

    def chat(self, model: str) -> OpenAiChat:
        return OpenAiChat(self, model)

    def vectors(self, model: str) -> OpenAiVectors:
        return OpenAiVectors(self, model)

    async def close(self) -> None:
        await self._http.aclose()


class OpenAiChat:
    """Chat completions, with or without a picture."""

    provider = PROVIDER

    def __init__(self, client: OpenAiConnection, model: str) -> None:
        self._client = client
        self.model = model
        self._output = _Output.SCHEMA
        self._without: frozenset[str] = frozenset()  # parameters that this server does not want

    async def ask(self, ask: Ask, picture: bytes | None = None) -> Reply:
        """Steps down to what the server understands; what worked is remembered."""
        output, without = self._output, self._without
        while True:
            try:
                content = await self._client.post("chat/completions", self._body(ask, picture, output, without))
            except _Refused as refused:
                if refused.parameter in {"temperature", "max_tokens"} - without:
                    without |= {refused.parameter}
                elif output < _Output.WORDS:
                    output = _Output(output + 1)
                else:
                    raise
            else:
                self._output, self._without = output, without
                return _reply(content)

    def _body(self, ask: Ask, picture: bytes | None, output: _Output, without: frozenset[str]) -> dict[str, Any]:
        data: str | list[dict[str, Any]] = ask.data
        if picture is not None:
            address = f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"
            data = [{"type": "text", "text": ask.data}, {"type": "image_url", "image_url": {"url": address}}]
        form = "" if output is _Output.SCHEMA else f"\nThe form, as JSON Schema: {json.dumps(ask.schema)}"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "system", "content": ask.system + form}, {"role": "user", "content": data}],
            "temperature": 0,
            "max_tokens": ask.most_tokens,
        }
        if "max_tokens" in without:
            body["max_completion_tokens"] = body["max_tokens"]  # its newer name
        if output is _Output.SCHEMA:
            schema = {"name": ask.form, "strict": True, "schema": ask.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif output is _Output.JSON:
            body["response_format"] = {"type": "json_object"}
        return {name: value for name, value in body.items() if name not in without}


class OpenAiVectors:
    """Embeddings."""

    provider = PROVIDER

    def __init__(self, client: OpenAiConnection, model: str) -> None:
        self._client = client
        self.model = model

    async def vectors(self, texts: Sequence[str]) -> VectorReply:
        content = await self._client.post("embeddings", {"model": self.model, "input": list(texts)})
        found = _decoded(content, _Vectors)
        vectors = [one.embedding for one in sorted(found.data, key=lambda one: one.index)]
        return VectorReply(vectors=vectors, tokens=_told(found.usage, "prompt_tokens"))


class _Refused(Trouble):
    """400 or 422: the input, or a parameter that the server does not know."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(Kind.REFUSED, message)
        self.parameter = parameter


class _Error(msgspec.Struct):
    message: str = ""
    param: str | None = None


class _Errors(msgspec.Struct):
    error: _Error | str = ""


def trouble_of(status: int, complaint: _Error, retry_after: str | None) -> Trouble:
    """What an HTTP status means for us."""
    told = f"{status} {complaint.message[:_SHOWN]}".strip()
    match status:
        case 400 | 413 | 415 | 422:
            return _Refused(told, (complaint.param or "").split(".")[0])
        case 401 | 403:
            return Trouble(Kind.BLOCKED, f"the server refuses the key ({told}): set OPENAI_API_KEY")
        case 402 | 429 if status == 402 or "insufficient_quota" in told:
            return Trouble(Kind.BLOCKED, f"the account is empty ({told})")
        case 404:
            return Trouble(Kind.BLOCKED, f"no such model or address ({told}): set OPENAI_BASE_URL and the model")
        case 429 | 503 if retry_after or status == 429:
            return Trouble(Kind.LIMITED, told, after=seconds_to_wait(retry_after, datetime.now(UTC)))
        case _:
            return Trouble(Kind.DOWN, told)


def _reply(content: bytes) -> Reply:
    completion = _decoded(content, _Completion)
    usage = completion.usage
    if not completion.choices:
        raise Trouble(Kind.DOWN, "an answer without a choice")
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise Trouble(
            Kind.REFUSED, f"the model will not speak of this: {(choice.message.refusal or 'filtered')[:_SHOWN]}"
        )
    return Reply(
        text=choice.message.content or "",
        tokens_in=_told(usage, "prompt_tokens"),
        tokens_out=_told(usage, "completion_tokens"),
    )


def _told(usage: Any, name: str) -> object:
    return usage.get(name) if isinstance(usage, dict) else None


def _decoded(content: bytes, form: type[_Content]) -> _Content:
    try:
        return msgspec.json.decode(content, type=form)
    except msgspec.DecodeError as exc:
        raise Trouble(Kind.DOWN, f"an answer that cannot be read: {str(exc)[:_SHOWN]}") from exc


async def _bounded(response: httpx.Response) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _LARGEST_ANSWER:
            raise Trouble(Kind.DOWN, f"an answer of more than {_LARGEST_ANSWER // 2**20} MB")
    return bytes(content)


def _complaint(content: bytes) -> _Error:
    try:
        error = msgspec.json.decode(content, type=_Errors).error
    except msgspec.DecodeError:
        return _Error(message=content[:_SHOWN].decode(errors="replace"))
    return _Error(message=error) if isinstance(error, str) else error
