"""GigaChat through its official package: chat, pictures by upload, embeddings. The package renews the token itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx
from gigachat import GigaChatAsyncClient
from gigachat.exceptions import (
    AuthenticationError,
    BadRequestError,
    ForbiddenError,
    GigaChatException,
    NotFoundError,
    RequestEntityTooLargeError,
    ResponseError,
    UnprocessableEntityError,
)
from gigachat.models import ChatCompletion

from telegram_assistant.ai.remote.connections import GigaChatAccount, Reply, VectorReply
from telegram_assistant.ai.remote.gate import Kind, Trouble
from telegram_assistant.ai.remote.prompts import Ask
from telegram_assistant.domain.retries import seconds_to_wait
from telegram_assistant.log import get_logger
from telegram_assistant.tls import verified_tls

PROVIDER = "gigachat"
_SHOWN = 300
_REFUSALS = (BadRequestError, UnprocessableEntityError, RequestEntityTooLargeError)
Answer = TypeVar("Answer")
_logger = get_logger(__name__)


class GigaChatConnection:
    """One client, with its token, for all abilities."""

    def __init__(self, account: GigaChatAccount) -> None:
        self._timeout = account.timeout
        # Everything is said here, for what is not the package takes from GIGACHAT_* variables: TLS could be off there.
        self.client = GigaChatAsyncClient(
            base_url=account.base_url,
            auth_url=account.auth_url,
            credentials=account.credentials,
            scope=account.scope,
            timeout=account.timeout,
            verify_ssl_certs=True,
            ssl_context=verified_tls(account.ca_file),
            max_retries=0,  # the gate decides about that
        )

    async def made(self, call: Awaitable[Answer]) -> Answer:
        """The call's answer within the time. Raises Trouble."""
        try:
            async with asyncio.timeout(self._timeout):
                return await call
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise Trouble(Kind.DOWN, f"no answer within {self._timeout:g} s") from exc
        except (httpx.HTTPError, OSError) as exc:  # TLS may fail after the handshake, and httpx lets that through
            raise Trouble(Kind.DOWN, f"no connection: {type(exc).__name__} {exc}") from exc
        except ResponseError as exc:
            raise trouble_of(exc) from exc
        except (GigaChatException, ValueError, TypeError, KeyError) as exc:
            # The package reads answers with json and pydantic, and lets their errors through.
            raise Trouble(Kind.DOWN, f"an answer that cannot be read: {type(exc).__name__}") from exc

    def chat(self, model: str) -> GigaChatModel:
        return GigaChatModel(self, model)

    def vectors(self, model: str) -> GigaChatVectors:
        return GigaChatVectors(self, model)

    async def close(self) -> None:
        await self.client.aclose()


class GigaChatModel:
    """Chat completions, with or without a picture."""

    provider = PROVIDER

    def __init__(self, connection: GigaChatConnection, model: str) -> None:
        self._connection = connection
        self.model = model
        self._knows_schemas = True

    async def ask(self, ask: Ask, picture: bytes | None = None) -> Reply:
        if picture is None:
            return await self._ask(ask, [])
        client = self._connection.client
        uploaded = await self._connection.made(client.aupload_file(("picture.jpg", picture, "image/jpeg")))
        try:
            return await self._ask(ask, [uploaded.id_])
        finally:
            await self._remove(uploaded.id_)

    async def _ask(self, ask: Ask, attachments: list[str]) -> Reply:
        """With a schema, and without one where the model does not know such a thing; that is remembered."""
        if self._knows_schemas:
            try:
                return _reply(await self._completion(ask, attachments, schema=True))
            except _Refused as refused:
                reply = _reply(await self._completion(ask, attachments, schema=False))
                self._knows_schemas = False
                _logger.info(
                    "the model takes no schema: it is told the form in words", model=self.model, told=str(refused)
                )
                return reply
        return _reply(await self._completion(ask, attachments, schema=False))

    async def _completion(self, ask: Ask, attachments: list[str], *, schema: bool) -> ChatCompletion:
        form = "" if schema else f"\nThe form, as JSON Schema: {json.dumps(ask.schema)}"
        payload: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": ask.system + form},
                {"role": "user", "content": ask.data, "attachments": attachments or None},
            ],
            "temperature": 0.01,  # it does not take 0
            "max_tokens": ask.most_tokens,
        }
        if schema:
            payload["response_format"] = {"type": "json_schema", "schema": ask.schema, "strict": True}
        return await self._connection.made(self._connection.client.achat(payload))

    async def _remove(self, file: str) -> None:
        """Pictures of strangers are not left behind; that one could not be removed spoils no result."""
        with contextlib.suppress(Trouble):
            await self._connection.made(self._connection.client.adelete_file(file))


class GigaChatVectors:
    """Embeddings."""

    provider = PROVIDER

    def __init__(self, connection: GigaChatConnection, model: str) -> None:
        self._connection = connection
        self.model = model

    async def vectors(self, texts: Sequence[str]) -> VectorReply:
        found = await self._connection.made(self._connection.client.aembeddings(list(texts), model=self.model))
        ordered = sorted(found.data, key=lambda one: one.index)
        tokens = sum(one.usage.prompt_tokens for one in ordered)
        return VectorReply(vectors=[one.embedding for one in ordered], tokens=tokens)


class _Refused(Trouble):
    """400, 413 or 422."""


def trouble_of(error: ResponseError) -> Trouble:
    """What an error of the server means for us. Of the error itself only the server's words are shown."""
    told = f"{error.status_code} {(error.content or b'')[:_SHOWN].decode(errors='replace')}".strip()
    retry_after = error.headers.get("retry-after") if error.headers is not None else None
    match error:
        case AuthenticationError() | ForbiddenError():
            return Trouble(
                Kind.BLOCKED, f"GigaChat refuses the key ({told}): set GIGACHAT_CREDENTIALS and GIGACHAT_SCOPE"
            )
        case NotFoundError():
            return Trouble(Kind.BLOCKED, f"GigaChat knows no such model ({told}): set GIGACHAT_MODEL")
        case _ if isinstance(error, _REFUSALS):
            return _Refused(Kind.REFUSED, told)
        case _ if error.status_code == httpx.codes.PAYMENT_REQUIRED:
            return Trouble(Kind.BLOCKED, f"the GigaChat account has no tokens left ({told})")
        case _ if error.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return Trouble(Kind.LIMITED, told, after=seconds_to_wait(retry_after, datetime.now(UTC)))
        case _:
            return Trouble(Kind.DOWN, told, after=seconds_to_wait(retry_after, datetime.now(UTC)))


def _reply(completion: ChatCompletion) -> Reply:
    if not completion.choices:
        raise Trouble(Kind.DOWN, "an answer without a choice")
    choice, usage = completion.choices[0], completion.usage
    if choice.finish_reason == "blacklist":
        raise Trouble(Kind.REFUSED, "GigaChat will not speak of this")
    return Reply(text=choice.message.content, tokens_in=usage.prompt_tokens, tokens_out=usage.completion_tokens)
