"""How errors are answered: always `application/problem+json` (RFC 9457), with a sentence that says what to do."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from telegram_assistant.ai.spend import BudgetSpent
from telegram_assistant.errors import AssistantError, Reject, Retry, Skip
from telegram_assistant.http.answers import example
from telegram_assistant.http.guards import HEADERS
from telegram_assistant.http.web.page import error_page, said, wants_page
from telegram_assistant.log import get_logger
from telegram_assistant.services.problems import Problem

MEDIA_TYPE = "application/problem+json"

log = get_logger(__name__)


class ProblemAnswer(BaseModel):
    """What a problem looks like."""

    model_config = example(type="about:blank", title="Not Found", status=404, detail="There is no such post")

    type: str = Field("about:blank", description="Always about:blank: the status says what kind of problem it is.")
    title: str
    status: int
    detail: str = Field(description="A sentence for a person.")
    errors: list[dict[str, Any]] | None = Field(None, description="What was wrong with which value, if that is it.")


# For `responses=` of every router: what each of its operations may answer besides success.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemAnswer, "description": text, "content": {MEDIA_TYPE: {}}}
    for status, text in {
        400: "The request cannot be understood.",
        401: "Who are you? Send an API key as `Authorization: Bearer …`, or sign in.",
        403: "This is for admins, or the form was too old.",
        404: "There is no such thing, or it is not yours.",
        409: "That cannot be done as things are now.",
        422: "A value is wrong; `errors` says which.",
        429: "Too many requests; `Retry-After` says how many seconds to wait.",
        503: "A part of the system is away; `Retry-After` says when to try again.",
    }.items()
}


def handle_problems(app: FastAPI) -> None:
    """Every error of the application goes through here."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(AssistantError, _ours)
    app.add_exception_handler(Exception, _unexpected)


def answer(request: Request, problem: Problem, errors: list[dict[str, Any]] | None = None) -> Response:
    if wants_page(request):
        return error_page(request, problem.status, problem.detail, problem.headers)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    if errors is not None:
        body["errors"] = errors
    return JSONResponse(body, status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


async def _problem(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Problem)  # noqa: S101 - starlette gives what it was registered for
    return answer(request, exc)


async def _http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101 - see above
    detail = str(exc.detail)
    if exc.status_code == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = "There is nothing at this address"
    return answer(request, Problem(exc.status_code, detail, headers=exc.headers))


async def _invalid(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)  # noqa: S101 - see above
    # Not what was sent: it may be a secret, and it may be no text at all.
    errors = [{"at": [str(part) for part in one["loc"]], "message": str(one["msg"])} for one in exc.errors()]
    first = errors[0] if errors else {"at": [], "message": "the request is wrong"}
    where = ".".join(first["at"][1:]) or ".".join(first["at"])
    return answer(request, Problem(422, f"{where}: {first['message']}"), errors)


async def _ours(request: Request, exc: Exception) -> Response:
    if isinstance(exc, Retry):
        after = max(1, round(exc.after or 5))
        headers = {"Retry-After": str(after)}
        if isinstance(exc, BudgetSpent) and wants_page(request):
            words = said(request, "base.budget_spent", until=f"{exc.until:%H:%M}")
            return error_page(request, 503, words, headers, translated=True)
        return answer(request, Problem(503, str(exc), headers=headers))
    if isinstance(exc, Reject | Skip):
        return answer(request, Problem(422, str(exc)))
    return await _unexpected(request, exc)


async def _unexpected(request: Request, exc: Exception) -> Response:
    log.error("request_failed", method=request.method, path=request.url.path, exc_info=exc)
    # Outside of what puts them on the others.
    words = "Something went wrong here. It is in the log; nothing of yours is lost."
    return answer(request, Problem(500, words, headers=HEADERS))
