"""Ask: an answer from the posts, each sentence with its sources."""

from __future__ import annotations

from fastapi import APIRouter

from telegram_assistant.http.api.search import AnswerOut, QuestionIn
from telegram_assistant.http.dependencies import CallerDep, ServicesDep

router = APIRouter(prefix="/ask", tags=["ask"])


@router.post("", operation_id="ask_question", summary="Answer a question from the posts")
async def ask_question(services: ServicesDep, caller: CallerDep, asked: QuestionIn) -> AnswerOut:
    """From the posts of your channels and from nothing else. With the local models the sentences are those of posts;
    with a language model they are its own, and each names posts that say so. `answered` is false where they do not."""
    return AnswerOut.of(await services.asking.ask(caller.tenant_id, asked.question))
