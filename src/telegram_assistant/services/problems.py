"""What a caller is told instead of a result: a status of HTTP and a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus


class Problem(Exception):
    """An answer that is no success."""

    def __init__(
        self, status: int, detail: str, *, title: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.headers = dict(headers or {})


def not_found(what: str = "thing") -> Problem:
    return Problem(404, f"There is no such {what}")


def forbidden(detail: str = "Only an admin may do this") -> Problem:
    return Problem(403, detail)


def bad_request(detail: str) -> Problem:
    return Problem(400, detail)


def conflict(detail: str) -> Problem:
    return Problem(409, detail)
