"""Our own API as the MCP server calls it; what goes wrong becomes a sentence that says what to do."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from telegram_assistant.errors import Reject, Retry
from telegram_assistant.tls import verified_tls

PREFIX = "/api/v1"
PATIENCE = httpx.Timeout(120.0, connect=5.0)  # seconds: a local model may have to be loaded for the first answer


class ApiClient:
    """Calls one API with one key: the tenant comes from that."""

    def __init__(self, url: str, key: str, *, ca_file: Path | None = None) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.AsyncClient(
            base_url=f"{self._url}{PREFIX}",
            headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
            timeout=PATIENCE,
            trust_env=False,  # a proxy of the environment must not see the key
            verify=verified_tls(ca_file),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, path: str, **parameters: str | int) -> dict[str, Any]:
        return await self._ask("GET", path, params=parameters)

    async def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("POST", path, json=content)

    async def _ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """Raises Retry when another try may help, and Reject when something else has to change first."""
        try:
            answer = await self._client.request(method, path, **arguments)
        except httpx.TimeoutException as exc:
            raise Retry(f"The API at {self._url} did not answer in time: try again, or ask for less") from exc
        except httpx.HTTPError as exc:
            raise Retry(
                f"No API answers at {self._url}: start it with `tga up` or `tga api`, or correct TGA_API_URL"
            ) from exc
        found = _content(answer)
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            raise Reject("The API does not know this key: make one with `tga keys create` and set TGA_API_KEY to it")
        if not answer.is_success:
            detail = str(found.get("detail") or answer.reason_phrase)
            later = answer.status_code in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
            raise Retry(detail) if later else Reject(detail)
        if not found:
            raise Reject(f"What answers at {self._url} is not our API: correct TGA_API_URL")
        return found


def _content(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
