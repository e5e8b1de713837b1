"""`/ask`: a question, and the answer with its posts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from telegram_assistant.domain.query import without_filters
from telegram_assistant.domain.text import clean_text
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import fragment, page, zone_of

LONGEST_QUESTION = 16_000
EXAMPLES = ("example_1", "example_2", "example_3")
Asked = Annotated[str, Query(max_length=LONGEST_QUESTION)]

router = APIRouter(include_in_schema=False)


@router.get("/ask")
async def ask(request: Request, caller: CallerDep, q: Asked = "") -> HTMLResponse:
    """The page is there at once; its answer comes when it has been found."""
    return page(request, "ask.html", caller=caller, q=clean_text(q).strip(), examples=EXAMPLES)


@router.get("/ask/answer")
async def answer(request: Request, services: ServicesDep, caller: CallerDep, q: Asked = "") -> HTMLResponse:
    question = clean_text(q).strip()
    answered = await services.asking.ask(caller.tenant_id, question, zone=zone_of(request))
    return fragment(
        request, "ask_answer.html", caller=caller, q=question, answered=answered, said=without_filters(question)
    )
