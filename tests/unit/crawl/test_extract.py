"""What is taken from a page, and what is not believed."""

from __future__ import annotations

import pytest

from telegram_assistant.crawl.extract import extract, open_trafilatura
from telegram_assistant.crawl.worker import Extracted, Job

pytestmark = pytest.mark.unit

TEXT = "Российские учёные представили новую модель, которая предсказывает погоду на неделю вперёд. "


def read(html: str, *, kind: str = "text/html", longest: int = 10_000) -> Extracted:
    job = Job(url="http://a.test/x", kind=kind, charset="utf-8", longest=longest)
    return open_trafilatura()(job, html.encode())


def page(head: str = "", body: str = f"<p>{TEXT * 3}</p>", lang: str = "") -> str:
    return f"<html lang='{lang}'><head>{head}</head><body><article>{body}</article></body></html>"


@pytest.mark.parametrize(
    "head,name",
    [
        ('<link rel="canonical" href="/a">', "/a"),
        ('<link rel="Canonical " href=" /a ">', "/a"),
        ('<link rel="canonical" href="/a"><link rel="canonical" href="/a">', "/a"),
        ('<link rel="canonical" href="/a"><link rel="canonical" href="/b">', ""),
        ('<link rel="canonical">', ""),
        ('<link rel="canonical" href="">', ""),
        ('<link rel="alternate" href="/a">', ""),
    ],
)
def test_the_name_a_page_gives_itself(head: str, name: str) -> None:
    assert read(page(head)).canonical == name


def test_the_language_is_that_of_the_text_and_else_what_is_declared() -> None:
    assert read(page(lang="en-US")).language == "ru"
    assert read(page(body="<p>12 34 56</p>", lang="DE-de")).language in {"de", "en"}
    assert read(page(body="", lang="de-DE")).language == "de"
    assert read(page(body="", lang="'><script>")).language == ""


def test_a_date_is_not_guessed() -> None:
    assert read(page(body=f"<p>{TEXT * 3}</p><footer>© 2019</footer>")).published == ""
    head = '<meta property="article:published_time" content="2025-12-30T10:00:00+03:00">'
    assert read(page(head)).published == "2025-12-30"


def test_lengths_are_limited() -> None:
    head = f"<title>{'т' * 1000}</title><meta name='description' content='{'д ' * 2000}'>"
    found = read(page(head, body=f"<p>{TEXT * 300}</p>"), longest=500)
    assert (len(found.title), len(found.text)) == (300, 500)
    assert len(found.description) <= 1000


def test_plain_text_is_not_read_as_markup() -> None:
    found = read("<b>1 < 2</b>\0", kind="text/plain")
    assert (found.text, found.title, found.canonical) == ("<b>1 < 2</b>", "", "")


def test_another_engine_gets_the_html_and_its_tree() -> None:
    seen = []

    def text_of(html: str, tree: object, url: str) -> str:
        seen.append((html[:5], tree is not None, url))
        return "text"

    job = Job(url="http://a.test/x", kind="text/html", charset="", longest=10)
    prolog = '<?xml version="1.0" encoding="utf-8"?>'
    assert extract(job, f"{prolog}{page()}".encode(), text_of).text == "text"
    assert seen == [("<html", True, "http://a.test/x")]
