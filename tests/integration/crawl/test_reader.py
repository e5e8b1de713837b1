"""The contract of a page reader, the same for each of them: pages become text, and what is wrong has a name."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from telegram_assistant.crawl.pool import Crawl4aiPool, Pool, is_installed, worker_command
from telegram_assistant.crawl.reader import WebReader
from telegram_assistant.errors import Fatal, Reject, Retry, Skip
from telegram_assistant.stores.postgres.pages import Page

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

Internet = Any  # of conftest.py, which cannot be imported
Make = Callable[..., WebReader]

without = pytest.mark.skipif(not is_installed(), reason="the extra crawl4ai is not installed")
READERS = ["trafilatura", pytest.param("crawl4ai", marks=without)]


class Recorder:
    """Manners that let everybody pass and write it down; `closed` hosts are too busy."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.slower: dict[str, float] = {}
        self.closed: set[str] = set()

    async def take_host(self, host: str) -> None:
        if host in self.closed:
            raise Retry("busy", after=60)
        self.paid.append(host)

    async def slow_down(self, host: str, seconds: float) -> None:
        self.slower[host] = seconds


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=READERS)
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    """Processes are started once for all tests of this file."""
    made = Crawl4aiPool(seconds=60) if request.param == "crawl4ai" else Pool(worker_command(request.param), seconds=60)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def internet(new_internet: Any) -> AsyncIterator[Internet]:
    made = new_internet()
    yield made
    await made.stop()


@pytest.fixture
def manners() -> Recorder:
    return Recorder()


@pytest.fixture
def make(internet: Internet, pool: Pool, manners: Recorder) -> Make:
    def made(**limits: Any) -> WebReader:
        fetcher = internet.fetcher(**limits)
        return WebReader(fetcher, internet.robots(), pool, clock=internet.clock, manners=manners)

    return made


HEAD = (
    '<meta name="description" content="Кратко про модели"><meta property="og:site_name" content="Новости науки">'
    '<meta property="article:published_time" content="2025-12-30T10:00:00+03:00">'
)


async def test_a_page_becomes_text(internet: Internet, make: Make) -> None:
    headers = [("ETag", 'W/"v1"'), ("Last-Modified", "Mon, 05 Jan 2026 10:00:00 GMT")]
    html = internet.article("Новая модель погоды", head=HEAD)
    await internet.site("a.test", page=internet.response(html, headers=headers))
    page = await make().read("http://A.test/page?utm_source=tg#comments")
    assert page.url == "http://a.test/page"
    assert page.title == "Новая модель погоды"
    assert page.description == "Кратко про модели"
    assert page.site == "Новости науки"
    assert page.published == "2025-12-30"
    assert page.language == "ru"
    assert (page.etag, page.last_modified) == ('W/"v1"', "Mon, 05 Jan 2026 10:00:00 GMT")
    assert not page.unchanged
    for number in range(5):
        assert f"Абзац номер {number}." in page.text
    assert "Меню сайта" not in page.text
    assert page.content_hash == hashlib.sha256(page.text.encode()).hexdigest()


async def test_no_markup_and_no_script_reaches_the_text(internet: Internet, make: Make) -> None:
    html = internet.article(
        "Заголовок &lt;b&gt;<script>alert(1)</script>",
        head="<script>steal()</script><style>p{}</style><meta name='description' content='x<img onerror=hack()>'>",
    ).replace(
        "</article>",
        "<p onclick='evil()'>Последний абзац статьи про погоду и моделях.</p><iframe src=x></iframe></article>",
    )
    await internet.site("a.test", page=internet.response(html))
    page = await make().read("http://a.test/page")
    assert "Последний абзац" in page.text
    for bad in ("<p", "<script", "steal()", "evil()", "<iframe", "onclick"):
        assert bad not in page.text
    assert "<script" not in page.title


async def test_invisible_characters_are_cleaned_away(internet: Internet, make: Make) -> None:
    direction, nothing, smuggled = "\u202e", "\u200b", "\U000e0041\U000e0042"
    html = (
        internet.article("Погода")
        .replace("Погода", f"{direction}Погода\a")
        .replace("учёные", f"{nothing}учёные{smuggled}")
    )
    await internet.site("a.test", page=internet.response(html))
    page = await make().read("http://a.test/page")
    assert page.title == "Погода"
    assert "учёные" in page.text
    assert not set(page.text) & set(direction + nothing + smuggled)


@pytest.mark.parametrize("charset", ["utf-8", "windows-1251", "koi8-r"])
async def test_old_charsets_are_understood(internet: Internet, make: Make, charset: str) -> None:
    body = internet.article("Погода").encode(charset)
    await internet.site("a.test", page=internet.response(body, kind=f"text/html; charset={charset}"))
    assert (await make().read("http://a.test/page")).title == "Погода"


async def test_plain_text_is_taken_as_it_is(internet: Internet, make: Make) -> None:
    text = "Первая строка <b>не разметка</b>\n\nи ещё строка"
    await internet.site("a.test", page=internet.response(text, kind="text/plain; charset=utf-8"))
    page = await make().read("http://a.test/page")
    assert (page.text, page.title, page.site) == (text, "", "a.test")


async def test_a_page_that_did_not_change(internet: Internet, make: Make) -> None:
    async def answer(asked: Any, writer: Any) -> None:
        same = asked.headers.get("if-none-match") == '"v1"'
        headers = [("ETag", '"v1"')]
        writer.write(internet.response(b"" if same else internet.article(), 304 if same else 200, headers=headers))

    site = await internet.site("a.test", page=answer)
    reader = make()
    first = await reader.read("http://a.test/page")
    again = await reader.read(
        "http://a.test/page", Page(url="", etag=first.etag, last_modified="Mon, 05 Jan 2026 10:00:00 GMT")
    )
    assert again == Page(
        url="http://a.test/page", etag='"v1"', last_modified="Mon, 05 Jan 2026 10:00:00 GMT", unchanged=True
    )
    assert site.asked[-1].headers["if-modified-since"] == "Mon, 05 Jan 2026 10:00:00 GMT"
    assert not (await reader.read("http://a.test/page", Page(url="", etag='"v0"'))).unchanged


async def test_what_is_stored_cannot_put_headers_into_a_request(internet: Internet, make: Make) -> None:
    site = await internet.site("a.test", page=internet.response(internet.article()))
    await make().read("http://a.test/page", Page(url="", etag='"x"\r\nX-Evil: 1', last_modified="x\ny"))
    assert not {"if-none-match", "if-modified-since", "x-evil"} & set(site.asked[-1].headers)


@pytest.mark.parametrize(
    "claimed,name",
    [
        ("/real?utm_source=x", "http://a.test/real"),
        ("http://www.a.test/real", "http://www.a.test/real"),
        ("https://a.test/page", "http://a.test/page"),  # another port
        ("http://evil.test/real", "http://a.test/page"),
        ("http://a.test.evil.test/", "http://a.test/page"),
        ("http://127.0.0.1/", "http://a.test/page"),
        ("javascript:alert(1)", "http://a.test/page"),
        ("/", "http://a.test/page"),
        ("http://[", "http://a.test/page"),
    ],
)
async def test_a_page_names_itself_only_on_its_own_site(
    internet: Internet, make: Make, claimed: str, name: str
) -> None:
    html = internet.article(head=f'<link rel="canonical" href="{claimed}">')
    await internet.site("a.test", page=internet.response(html))
    assert (await make().read("http://a.test/page")).url == name


async def test_two_names_are_no_name(internet: Internet, make: Make) -> None:
    html = internet.article(head='<link rel="canonical" href="/x"><link rel="canonical" href="/y">')
    await internet.site("a.test", page=internet.response(html))
    assert (await make().read("http://a.test/page")).url == "http://a.test/page"


async def test_a_page_without_text_is_skipped_and_a_description_is_text(internet: Internet, make: Make) -> None:
    await internet.site(
        "a.test",
        empty=internet.response("<html><body></body></html>"),
        nothing=internet.response(""),
        script=internet.response(f"<html><head><title>App</title>{HEAD}</head><body><div id=app></div></body></html>"),
    )
    for path in ("empty", "nothing"):
        with pytest.raises(Skip, match="no text"):
            await make().read(f"http://a.test/{path}")
    page = await make().read("http://a.test/script")
    assert (page.text, page.title) == ("Кратко про модели", "App")


@pytest.mark.parametrize("body", [b"\x89PNG\r\n\x1a\n\0\0\0", b"%PDF-1.7\n\0\0\0\0"])
async def test_a_picture_that_calls_itself_a_page_is_skipped(internet: Internet, make: Make, body: bytes) -> None:
    await internet.site("a.test", page=internet.response(body))
    with pytest.raises(Skip, match="no text"):
        await make().read("http://a.test/page")


@pytest.mark.parametrize(
    "status,error",
    [(404, Skip), (410, Skip), (403, Skip), (401, Skip), (402, Skip), (500, Retry), (503, Retry), (429, Retry)],
)
async def test_statuses(internet: Internet, make: Make, status: int, error: type[Exception]) -> None:
    await internet.site("a.test", page=internet.response(internet.article(), status, headers=[("Retry-After", "77")]))
    with pytest.raises(error, match=str(status)) as raised:
        await make().read("http://a.test/page")
    assert getattr(raised.value, "after", None) == (77 if error is Retry else None)


async def test_robots_are_asked_first_and_obeyed(internet: Internet, make: Make, manners: Recorder) -> None:
    site = await internet.site("a.test", page=internet.response(internet.article()))
    site.pages["/robots.txt"] = internet.response("User-agent: *\nDisallow: /closed\nCrawl-delay: 7", kind="text/plain")
    reader = make()
    assert (await reader.read("http://a.test/page")).title == "Погода"
    with pytest.raises(Skip, match="does not allow it"):
        await reader.read("http://a.test/closed")
    assert site.paths == ["/robots.txt", "/page"]
    assert manners.slower == {"a.test": 7}
    assert manners.paid == [], "who asks has paid for the first host"


async def test_robots_of_the_site_that_a_redirect_leads_to(internet: Internet, make: Make, manners: Recorder) -> None:
    await internet.site("short.test", x=internet.response(status=302, headers=[("Location", "http://a.test/page")]))
    site = await internet.site("a.test", page=internet.response(internet.article()))
    reader = make()
    assert (await reader.read("http://short.test/x")).url == "http://a.test/page"
    assert site.paths == ["/robots.txt", "/page"]
    assert manners.paid == ["a.test"]
    manners.closed = {"a.test"}
    with pytest.raises(Retry, match="busy"):
        await reader.read("http://short.test/x")
    assert site.paths == ["/robots.txt", "/page"]


async def test_a_redirect_into_telegram_ends_there(internet: Internet, make: Make) -> None:
    await internet.site("short.test", x=internet.response(status=302, headers=[("Location", "https://t.me/channel")]))
    with pytest.raises(Skip, match="into Telegram"):
        await make().read("http://short.test/x")


@pytest.mark.parametrize(
    "link",
    ["http://127.0.0.1/", "file:///etc/passwd", "http://user@a.test/", "http://vk.com/away.php?to=http://10.0.0.1/"],
)
async def test_forbidden_places_are_rejected_before_anything_is_asked(
    internet: Internet, make: Make, link: str
) -> None:
    with pytest.raises(Reject):
        await make().read(link)
    assert internet.wire.dialled == []


async def test_a_redirect_into_a_private_network_is_rejected(internet: Internet, make: Make) -> None:
    secret = await internet.server()
    location = [("Location", f"http://127.0.0.1:{secret.port}/")]
    await internet.site("a.test", page=internet.response(status=302, headers=location))
    with pytest.raises(Reject, match="astray"):
        await make().read("http://a.test/page")
    assert secret.asked == []


async def test_entities_and_includes_read_no_file(internet: Internet, make: Make, tmp_path: Any) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret words of this machine", encoding="utf-8")
    doctype = f"<!DOCTYPE html [<!ENTITY leak SYSTEM 'file://{secret}'>]>"
    include = f"<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='file://{secret}' parse='text'/>"
    html = doctype + internet.article().replace("<h1>", f"<p>&leak; {include} Это первый абзац про погоду.</p><h1>")
    await internet.site("a.test", page=internet.response(html, kind="application/xhtml+xml"))
    try:
        page = await make().read("http://a.test/page")
    except Skip:
        return
    assert "secret words" not in page.text


@pytest.mark.skipif(is_installed(), reason="the extra crawl4ai is installed")
async def test_a_missing_extra_says_how_to_get_it() -> None:
    with pytest.raises(Fatal, match=r"pip install 'telegram-assistant\[crawl4ai\]'"):
        Crawl4aiPool()
