"""`tga search`, `tga ask`: find posts, and have a question answered from them."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.text import Text

from telegram_assistant.ai.providers import Models, build_models
from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.query import Note
from telegram_assistant.domain.results import Hit, Results, Snippet, Sort
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.search.ask import Answered, Asking
from telegram_assistant.search.planning import Meaning
from telegram_assistant.search.service import MOST_HITS, Search
from telegram_assistant.wiring.models import model_budget, models_config, open_search, open_vectors
from telegram_assistant.wiring.runtime import Runtime

PATIENCE = 120.0  # seconds: the local models are loaded for the one question

console = Console()

Words = Annotated[
    list[str], typer.Argument(metavar="QUERY...", help="In the language of docs/reference/query-language.md")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
WITH_MINUS = {"ignore_unknown_options": True}  # -word is part of a query


@dataclass(frozen=True)
class _Tools:
    """What a command searches with."""

    search: Search
    models: Models


def search(
    query: Words,
    limit: Annotated[int, typer.Option(min=1, max=MOST_HITS, help="Most results.")] = 10,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first, not the best.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    as_json: AsJson = False,
) -> None:
    sort = Sort.NEWEST if newest else Sort.BEST

    async def work(runtime: Runtime) -> Results:
        async with _tools(runtime) as tools:
            here = runtime.clock().astimezone().tzinfo
            return await tools.search.search(
                UUID(SYSTEM_TENANT), " ".join(query), limit=limit, cursor=cursor, sort=sort, zone=here
            )

    results = with_runtime(work)
    if as_json:
        print_json(_plain_results(results))
        return
    _remark(results.notes, results.without_meaning)
    for number, hit in enumerate(results.hits, start=1):
        console.print(_shown(number, hit), soft_wrap=True)
    console.print(_count(results))
    for offer in results.offers:
        tried = f"without {offer.without}" if offer.without else "spelt otherwise"
        console.print(Text(f"{tried}, {offer.found} found: tga search {shlex.quote(offer.query)}"), soft_wrap=True)
    if not results.hits:
        console.print(Text("Save the search on the page or with the API to be told when a post fits.", style="dim"))
    elif results.cursor:
        console.print(Text(f"more: --cursor {results.cursor}", style="dim"), soft_wrap=True)


def _count(results: Results) -> str:
    if not results.hits:
        return "nothing was found"
    near = f"{results.near} near in meaning" if results.near else ""
    found = f"{'at least ' if results.at_least else ''}{results.found} found" if results.found or not near else ""
    return ", ".join(filter(None, (found, near)))


def ask(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="May have filters, as a query.")],
    as_json: AsJson = False,
) -> None:
    async def work(runtime: Runtime) -> Answered:
        async with _tools(runtime) as tools:
            asking = Asking(tools.search, tools.models.answerer)
            here = runtime.clock().astimezone().tzinfo
            return await asking.ask(UUID(SYSTEM_TENANT), " ".join(question), zone=here)

    try:
        answered = with_runtime(work)
    except Retry as exc:
        raise Fatal(f"no answer now: {exc}") from exc
    if as_json:
        print_json(_plain_answer(answered))
        return
    _remark(answered.notes, answered.without_meaning)
    for said in answered.sentences:
        console.print(Text(f"{said.text} ").append(_numbers(said.sources), style="cyan"), soft_wrap=True)
    if not answered.sentences:
        console.print(answered.text)
    for number, post in enumerate(answered.sources, start=1):
        console.print(
            Text(f"[{number}] {post.channel_title}, {post.posted_at:%Y-%m-%d %H:%M}  {post.url}", style="dim")
        )


@asynccontextmanager
async def _tools(runtime: Runtime) -> AsyncIterator[_Tools]:
    """With the vectors, unless the embedded index is in the hands of a running `tga up`."""
    settings = runtime.settings
    vision = LocalVision(find_trained_data(settings.tessdata_prefix), nsfw=settings.vision_nsfw_enabled)
    budget = model_budget(settings, runtime.database, runtime.clock)
    models = build_models(models_config(settings), vision, budget)
    vectors = open_vectors(settings, runtime.folder.path)
    meaning: Meaning | None = None
    why = ""
    try:
        try:
            await vectors.current(UUID(SYSTEM_TENANT))
            meaning = Meaning(vectors, models.embedder, patience=PATIENCE)
        except Retry as exc:
            why = str(exc)
        search = open_search(runtime.database, clock=runtime.clock, meaning=meaning, why_without=why)
        yield _Tools(search, models)
    finally:
        await vectors.close()
        await models.close()
        await vision.close()


def _remark(notes: Sequence[Note], without_meaning: str) -> None:
    for note in notes:
        console.print(Text(str(note), style="yellow"), soft_wrap=True)
    if without_meaning:
        console.print(Text(f"by words alone, not by meaning: {without_meaning}", style="yellow"), soft_wrap=True)


def _shown(number: int, hit: Hit) -> Text:
    post = hit.post
    text = Text(f"{number}. ", style="bold").append(post.channel_title, style="bold cyan")
    marks = ", ".join(word for word, is_set in (("edited", post.edited), ("deleted", post.deleted)) if is_set)
    text.append(f"  {post.posted_at:%Y-%m-%d %H:%M}  {post.url}{f'  ({marks})' if marks else ''}\n", style="dim")
    text.append_text(_marked(hit.snippet))
    if hit.tellers:
        first = hit.tellers[0]
        others = len(hit.tellers) - 1
        text.append(f"\nfirst told by {first.channel_title}, {first.posted_at:%Y-%m-%d %H:%M}", style="dim")
        text.append(f"  {first.url}; and {others} more", style="dim")
    return text.append("\n")


def _marked(snippet: Snippet) -> Text:
    text = Text("… " if snippet.cut_before else "")
    start = len(text)
    text.append(snippet.text)
    for begin, end in snippet.spans:
        text.stylize("bold yellow", start + begin, start + end)
    return text.append(" …" if snippet.cut_after else "")


def _numbers(sources: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in sources)


def _plain_results(results: Results) -> dict[str, Any]:
    facets = {
        name: [{"value": one.value, "posts": one.posts, "title": one.title} for one in getattr(results.facets, name)]
        for name in ("channels", "tags", "topics", "languages", "has")
    }
    return {
        "hits": [_plain_hit(hit) for hit in results.hits],
        "found": results.found,
        "near": results.near,
        "at_least": results.at_least,
        "facets": facets,
        "cursor": results.cursor,
        "notes": [str(note) for note in results.notes],
        "without_meaning": results.without_meaning,
        "offers": [{"query": one.query, "found": one.found, "without": one.without} for one in results.offers],
    }


def _plain_hit(hit: Hit) -> dict[str, Any]:
    return {
        "post_id": str(hit.post.post_id),
        "url": hit.post.url,
        "channel": hit.post.channel_title,
        "posted_at": hit.post.posted_at.isoformat(),
        "snippet": hit.snippet.text,
        "spans": [list(span) for span in hit.snippet.spans],
        "origin": hit.snippet.origin,
        "score": hit.score,
        "by_words": hit.by_words,
        "by_meaning": hit.by_meaning,
        "album": [str(post_id) for post_id in hit.album],
        "tellers": [{"url": one.url, "posted_at": one.posted_at.isoformat()} for one in hit.tellers],
    }


def _plain_answer(answered: Answered) -> dict[str, Any]:
    return {
        "answer": answered.text,
        "sentences": [{"text": said.text, "sources": list(said.sources)} for said in answered.sentences],
        "sources": [{"url": post.url, "posted_at": post.posted_at.isoformat()} for post in answered.sources],
        "looked_at": answered.looked_at,
        "notes": [str(note) for note in answered.notes],
        "without_meaning": answered.without_meaning,
    }
