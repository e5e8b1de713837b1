"""A post's text as HTML: whatever its entities say, its markup is sound and its text is the post's."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.results import Snippet
from telegram_assistant.domain.text import Entity, EntityKind
from telegram_assistant.http.web.rendering import DEEPEST, MOST_ENTITIES, highlighted, rendered, safe_href
from telegram_assistant.stores.postgres.post_views import entities_of

pytestmark = pytest.mark.unit

ALLOWED = {"b", "i", "u", "s", "span", "code", "blockquote", "a", "mark"}
NICE = "noopener noreferrer nofollow"


class Reader(HTMLParser):
    """Reads markup, and refuses what no page of ours may have."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.open: list[str] = []
        self.deepest = 0
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert tag != "a" or "a" not in self.open, "a link in a link"
        assert {name for name, _ in attrs} <= {"href", "title", "rel", "class", "tabindex"}
        self.hrefs += [value or "" for name, value in attrs if name == "href"]
        self.open.append(tag)
        self.deepest = max(self.deepest, len(self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements that cross"

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(str(markup))  # not as Markup, whose pieces would be escaped again
    reader.close()
    assert reader.open == []
    return reader


def bold(offset: int, length: int) -> Entity:
    return Entity(EntityKind.BOLD, offset, length)


ENTITIES = st.builds(
    Entity,
    st.sampled_from(EntityKind),
    st.integers(-5, 60) | st.integers(),
    st.integers(-5, 60) | st.integers(),
    st.none() | st.sampled_from(["https://a.example/?a=1&b=2", "javascript:alert(1)", '"><script>']) | st.text(),
    st.none() | st.text(),
)
TEXTS = st.text(max_size=60) | st.text("<>&\"'ab🙂\r\n#@", max_size=60)


@given(TEXTS, st.lists(ENTITIES, max_size=25))
def test_any_entities_give_sound_markup_with_the_same_text(text: str, entities: list[Entity]) -> None:
    page = read(rendered(text, entities))
    assert page.text == text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert page.deepest <= DEEPEST
    assert all(href.startswith("/search?q=") or safe_href(href) for href in page.hrefs)


@given(TEXTS, st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70))))
def test_any_spans_of_a_snippet_are_marked_safely(text: str, spans: list[tuple[int, int]]) -> None:
    page = read(highlighted(Snippet(text, tuple(spans))))
    assert page.text == text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_the_usual_formatting() -> None:
    kinds = {
        EntityKind.BOLD: "<b>word</b>",
        EntityKind.ITALIC: "<i>word</i>",
        EntityKind.UNDERLINE: "<u>word</u>",
        EntityKind.STRIKE: "<s>word</s>",
        EntityKind.SPOILER: '<span class="spoiler" tabindex="0">word</span>',
        EntityKind.CODE: "<code>word</code>",
        EntityKind.PRE: '<code class="block">word</code>',
        EntityKind.BLOCKQUOTE: "<blockquote>word</blockquote>",
        EntityKind.CUSTOM_EMOJI: "word",
        EntityKind.PHONE: "word",
        EntityKind.OTHER: "word",
    }
    for kind, expected in kinds.items():
        assert rendered("a word here", [Entity(kind, 2, 4)]) == f"a {expected} here"


@pytest.mark.parametrize(
    "label, entity, href",
    [
        ("example.org/a?b=1&c", Entity(EntityKind.URL, 0, 99), "http://example.org/a?b=1&c"),
        ("example.org:8080", Entity(EntityKind.URL, 0, 99), "http://example.org:8080"),
        ("HTTPS://example.org", Entity(EntityKind.URL, 0, 99), "HTTPS://example.org"),
        ("here", Entity(EntityKind.TEXT_URL, 0, 4, "tg://resolve?domain=a"), "tg://resolve?domain=a"),
        ("a@example.org", Entity(EntityKind.EMAIL, 0, 13), "mailto:a@example.org"),
        ("@durov", Entity(EntityKind.MENTION, 0, 6), "https://t.me/durov"),
        ("Pavel", Entity(EntityKind.TEXT_MENTION, 0, 5, detail="777"), "tg://user?id=777"),
        ("#погода", Entity(EntityKind.HASHTAG, 0, 7), "/search?q=%D0%BF%D0%BE%D0%B3%D0%BE%D0%B4%D0%B0"),
        ("$TON", Entity(EntityKind.CASHTAG, 0, 4), "/search?q=TON"),
    ],
)
def test_links_lead_where_they_say(label: str, entity: Entity, href: str) -> None:
    shown = rendered(label, [entity])
    assert read(shown).hrefs == [href]
    assert (NICE in shown) == (not href.startswith("/"))


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        " javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "/search?q=a",
        "https://a.example/\nb",
        'https://a.example/" onmouseover="alert(1)',
        "https://",
        "",
        None,
        "https://a.example/" + "a" * 3000,
    ],
)
def test_no_other_address_becomes_a_link(url: str | None) -> None:
    assert rendered("press here", [Entity(EntityKind.TEXT_URL, 0, 10, url)]) == "press here"


def test_offsets_count_utf16_units() -> None:
    text = "🙂🙂 bold"
    assert rendered(text, [bold(5, 4)]) == "🙂🙂 <b>bold</b>"
    assert rendered(text, [bold(2, 2)]) == "🙂<b>🙂</b> bold"
    assert rendered(text, [bold(1, 2)]) == "<b>🙂🙂</b> bold", "half of a character is the whole character"


def test_entities_that_cross_are_cut_and_go_on() -> None:
    crossing = [bold(0, 4), Entity(EntityKind.ITALIC, 2, 4)]
    assert rendered("abcdef", crossing) == "<b>ab<i>cd</i></b><i>ef</i>"


def test_entities_beyond_the_text_mean_nothing() -> None:
    assert rendered("abc", [bold(-1, 2), bold(3, 5), bold(10**30, 10**30), bold(1, -1), bold(1, 0)]) == "<b>a</b>bc"
    assert rendered("abc", [bold(1, 10**30)]) == "a<b>bc</b>"
    assert rendered("", [bold(0, 1)]) == ""


def test_thousands_of_entities_do_not_make_a_page_of_tags() -> None:
    text = "a" * 4000
    crossing = [bold(at, 4000 - at // 2) for at in range(4000)]
    shown = rendered(text, crossing)
    assert read(shown).text == text
    assert len(shown) < len(text) + MOST_ENTITIES * DEEPEST * 4 * len("</b>")


def test_a_script_in_a_post_is_words() -> None:
    shown = rendered("<script>alert(1)</script><img src=x onerror=alert(1)>", [bold(0, 8)])
    assert "<script" not in shown
    assert "<img" not in shown


def test_a_snippet_says_that_there_is_more() -> None:
    found = Snippet("снег & дождь", ((0, 4), (7, 12), (10, 99)), cut_before=True, cut_after=True)
    assert highlighted(found) == "… <mark>снег</mark> &amp; <mark>дождь</mark> …"


def test_stored_entities_are_read_with_care() -> None:
    good = {"kind": "text_url", "offset": 0, "length": 3, "url": "https://a.example", "detail": None}
    bad = [None, 1, "bold", {}, {"kind": "bold"}, {"kind": "script", "offset": 0, "length": 1}, {**good, "offset": "1"}]
    assert entities_of([*bad, good]) == (Entity(EntityKind.TEXT_URL, 0, 3, "https://a.example"),)
    assert entities_of([{**good, "url": 5}]) == (Entity(EntityKind.TEXT_URL, 0, 3),)
