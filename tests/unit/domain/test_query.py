"""The query language: every text is a query, and what it does not understand it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.domain.query import (
    LONGEST,
    MOST_CLAUSES,
    Clause,
    Filters,
    Mark,
    Query,
    Term,
    Trouble,
    parse_query,
    without_filters,
)

pytestmark = pytest.mark.unit

MOSCOW = timezone(timedelta(hours=3))
NOW = datetime(2026, 11, 15, 1, 30, tzinfo=MOSCOW)  # in UTC it is still the day before


def parse(text: str) -> Query:
    return parse_query(text, now=NOW)


def words(*found: str) -> tuple[Clause, ...]:
    return tuple(Clause((Term((word,)),)) for word in found)


def troubles(query: Query) -> list[Trouble]:
    return [note.trouble for note in query.notes]


def test_words_are_loose_and_keep_their_order() -> None:
    query = parse("Цена доллара  to ruble")
    assert query.clauses == words("Цена", "доллара", "to", "ruble")
    assert query.words == "Цена доллара to ruble"
    assert not query.notes


@pytest.mark.parametrize(
    "text,term",
    [
        ("=стали", Term(("стали",), exact=True)),
        ('"курс доллара"', Term(("курс", "доллара"))),
        ("«курс доллара»", Term(("курс", "доллара"))),
        ("„курс доллара“", Term(("курс", "доллара"))),
        ('="курс доллара"', Term(("курс", "доллара"), exact=True)),
        ("+нефть", Term(("нефть",))),
    ],
)
def test_what_is_insisted_on(text: str, term: Term) -> None:
    assert parse(text).clauses == (Clause((term,), required=True),)


@pytest.mark.parametrize(
    "text,terms",
    [
        ("бизнес-центр", ("бизнес-центр",)),
        ("naked-science.ru", ("naked-science", "ru")),
        ("12:30", ("12", "30")),
        ("C++", ("C",)),
        ("don't", ("don't",)),
        ('"Спартак"', ("Спартак",)),
    ],
)
def test_what_stands_together_is_looked_for_together(text: str, terms: tuple[str, ...]) -> None:
    assert parse(text).clauses == (Clause((Term(terms),), quoted=text.startswith('"')),)


@pytest.mark.parametrize("minus", ["-", "\u2212", "\u2013"])
def test_words_to_leave_out(minus: str) -> None:
    query = parse(f"нефть {minus}уголь")
    assert query.clauses == words("нефть")
    assert query.unwanted == (Term(("уголь",)),)


def test_phrases_and_forms_to_leave_out() -> None:
    query = parse('нефть -"курс доллара" -=газа')
    assert query.unwanted == (Term(("курс", "доллара")), Term(("газа",), exact=True))


@pytest.mark.parametrize("text", ["нефть OR газ", "нефть | газ", "нефть ИЛИ газ", "(нефть OR газ)"])
def test_alternatives(text: str) -> None:
    assert parse(text).clauses == (Clause((Term(("нефть",)), Term(("газ",))), required=True),)


def test_alternatives_bind_closer_than_words() -> None:
    query = parse('цена нефть OR газ OR "бурый уголь" рост')
    loose, either, last = query.clauses
    assert (loose, last) == words("цена", "рост")
    assert either.options == (Term(("нефть",)), Term(("газ",)), Term(("бурый", "уголь")))


@pytest.mark.parametrize("text", ["OR нефть", "нефть OR", "OR OR нефть", "AND нефть", "нефть & "])
def test_operators_without_operands_are_nothing(text: str) -> None:
    assert parse(text).clauses == words("нефть")


def test_or_in_small_letters_is_a_word() -> None:
    assert parse("now or never").clauses == words("now", "or", "never")


def test_filters() -> None:
    query = parse(
        'нефть channel:@Banksta канал:"Раньше всех" tag:#Экономика topic:business lang:RU has:фото is:edited'
        " -has:video -channel:@spam -lang:en -тег:реклама"
    )
    assert query.clauses == words("нефть")
    assert query.only == Filters(
        channels=("@Banksta", "Раньше всех"),
        tags=("экономика",),
        topics=("business",),
        languages=("ru",),
        has=("photo",),
        marks=("edited",),
    )
    assert query.without == Filters(channels=("@spam",), languages=("en",), has=("video",), tags=("реклама",))
    assert query.only
    assert not parse("нефть").only


def test_deleted_posts_are_asked_for() -> None:
    assert parse("is:deleted").wants_deleted
    assert not parse("-is:deleted нефть").wants_deleted
    assert parse("is:deleted").only.marks == (Mark.DELETED,)


def midnight(*date: int) -> datetime:
    return datetime(*date, tzinfo=MOSCOW)  # type: ignore[arg-type, misc]  # three numbers


@pytest.mark.parametrize(
    "text,since",
    [
        ("after:2026-11-01", midnight(2026, 11, 1)),
        ("after:2026-11", midnight(2026, 11, 1)),
        ("after:2026", midnight(2026, 1, 1)),
        ("after:01.11.2026", midnight(2026, 11, 1)),
        ("после:1.11.2026", midnight(2026, 11, 1)),
        ("after:today", midnight(2026, 11, 15)),
        ("after:сегодня", midnight(2026, 11, 15)),
        ("after:yesterday", midnight(2026, 11, 14)),
        ("after:7d", NOW - timedelta(days=7)),
        ("since:12h", NOW - timedelta(hours=12)),
        ("after:2н", NOW - timedelta(days=14)),
    ],
)
def test_dates_are_meant_where_the_reader_is(text: str, since: datetime) -> None:
    query = parse(text)
    assert query.since == since
    assert query.since.tzinfo is UTC
    assert not query.clauses


def test_a_time_between() -> None:
    query = parse("after:2026-10 before:2026-11 before:2026-12")
    assert (query.since, query.before) == (midnight(2026, 10, 1), midnight(2026, 11, 1))


@pytest.mark.parametrize(
    "text,trouble",
    [
        ("has:music", Trouble.UNKNOWN_HAS),
        ("is:new", Trouble.UNKNOWN_MARK),
        ("after:tomorrowish", Trouble.NO_DATE),
        ("after:2026-02-31", Trouble.NO_DATE),
        ("before:0000", Trouble.NO_DATE),
        ("lang:русский", Trouble.NO_LANGUAGE),
        ("-нефть", Trouble.ONLY_LEFT_OUT),
        ('"курс доллара', Trouble.LONE_QUOTE),
        ("курс доллара»", Trouble.LONE_QUOTE),
        ('"курс доллара" к "рублю', Trouble.LONE_QUOTE),
        ('channel:"Раньше всех', Trouble.LONE_QUOTE),
    ],
)
def test_what_is_not_understood_is_told(text: str, trouble: Trouble) -> None:
    query = parse(text)
    assert troubles(query) == [trouble]
    assert str(query.notes[0])
    assert "{" not in str(query.notes[0])


@pytest.mark.parametrize("text", ['"курс доллара"', '""', 'монитор 27"', "«Банк „Открытие“ вчера»", "don't"])
def test_quotes_that_are_in_order_get_no_remark(text: str) -> None:
    assert Trouble.LONE_QUOTE not in {note.trouble for note in parse(text).notes}


def test_words_behind_a_lone_quote_are_words() -> None:
    assert parse('цена "курс доллара').clauses == words("цена", "курс", "доллара")


def test_too_much_is_cut_and_told() -> None:
    query = parse("нефть " * 2_000)
    assert len(query.clauses) == MOST_CLAUSES
    assert troubles(query) == [Trouble.CUT, Trouble.TOO_MANY]
    assert str(LONGEST) in str(query.notes[0])


@pytest.mark.parametrize(
    "text",
    ["", " ", '"', '""', "-", "--", "=", "+", "OR", ":", "channel:", "tag: ", '"нефть', "\0", "()", '="', "-channel:"],
)
def test_odd_input_is_an_empty_query_or_words(text: str) -> None:
    query = parse(text)
    assert not query.only
    assert {word for clause in query.clauses for term in clause.options for word in term.words} <= {
        "нефть",
        "channel",
        "tag",
    }


def test_what_looks_like_code_is_words() -> None:
    query = parse("'; DROP TABLE posts; -- <script>alert(1)</script>")
    assert set(query.words.split()) == {"DROP", "TABLE", "posts", "script", "alert", "1"}


def test_a_question_without_its_filters() -> None:
    asked = 'Кто, по-вашему, выиграл "Кубок"? channel:@sport after:7d -lang:en 12:30'
    assert without_filters(asked) == 'Кто, по-вашему, выиграл "Кубок"? 12:30'


OPERATORS = ["OR", "AND", "channel:", "tag:", "has:photo", "is:deleted", "after:", "before:2024-02-30", "7d", "99999d"]
ODD = ["\0", "\ud800", "«", "”", "'", "\\", "😀", "1" * 30, "ё", "\u2028", "%", "_", "нефть"]
PIECES = st.sampled_from([*'"-+=:()| ', *OPERATORS, *ODD])


@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join)))
def test_no_text_breaks_it(text: str) -> None:
    query = parse(text)
    assert len(query.clauses) + len(query.unwanted) <= MOST_CLAUSES
    terms = [term for clause in query.clauses for term in clause.options]
    for term in (*terms, *query.unwanted):
        assert term.words
        for word in term.words:
            assert word.strip()
            assert not set(word) & set('"=:()\0\ud800 ')
    for moment in (query.since, query.before):
        assert moment is None or moment.tzinfo is UTC
    for note in query.notes:
        assert str(note)


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), min_size=1, max_size=10))
def test_plain_words_come_back(found: list[str]) -> None:
    plain = [word for word in found if word not in {"OR", "AND", "И", "ИЛИ"}]
    assert parse(" ".join(plain)).words == " ".join(plain)
