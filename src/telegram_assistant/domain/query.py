"""The query language of search: any text is a query, and what it does not understand it says.

Words are looked for in every inflection, `=form` and `="two forms"` as written, `"a phrase"` side by side; `-` leaves
out, `+` insists, `OR` stands between alternatives; `#hashtag` is one; emoji are looked for where there is no word;
`channel: tag: topic: lang: has: is: before: after:` narrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from telegram_assistant.domain.signs import emoji_in, hashtags_in, is_sign, without_hashtags

LONGEST = 1_000  # characters
MOST_CLAUSES = 24
MOST_VALUES = 50  # of one filter

_WORD = re.compile(r"[^\W_]+(?:[-'\u2019\u02bc][^\W_]+)*")
_TOKEN = re.compile(
    r"(?P<sign>[-+\u2212\u2013])?(?:(?P<name>\w{1,20}):)?(?P<exact>=)?"
    r'(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))'
)
_QUOTES = str.maketrans(dict.fromkeys("«»“”„‟\uff02", '"'))
_INCHES = re.compile(r'\d"$')  # as in 27": a quote that needs no other
_SEPARATORS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff()]")
_OR = frozenset({"OR", "ИЛИ", "|", "||"})
_MINUS = frozenset({"-", "\u2212", "\u2013"})
_AND = frozenset({"AND", "И", "&", "&&"})
_NAMES = {
    "channel": "channels",
    "канал": "channels",
    "tag": "tags",
    "тег": "tags",
    "тэг": "tags",
    "topic": "topics",
    "тема": "topics",
    "lang": "languages",
    "language": "languages",
    "язык": "languages",
    "has": "has",
    "есть": "has",
    "is": "marks",
    "before": "before",
    "до": "before",
    "after": "since",
    "since": "since",
    "после": "since",
}
_HAS = {
    "photo": "photo",
    "photos": "photo",
    "picture": "photo",
    "image": "photo",
    "фото": "photo",
    "картинка": "photo",
    "video": "video",
    "видео": "video",
    "link": "link",
    "links": "link",
    "ссылка": "link",
    "ссылки": "link",
    "album": "album",
    "альбом": "album",
    "document": "document",
    "file": "document",
    "файл": "document",
    "документ": "document",
    "audio": "audio",
    "музыка": "audio",
    "voice": "voice",
    "голос": "voice",
    "animation": "animation",
    "gif": "animation",
    "sticker": "sticker",
    "стикер": "sticker",
}
_ISO = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_DAY_FIRST = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})")
_AGO = re.compile(r"(\d{1,5})([hdwmyчднм\u0433])")
_HOURS = {"h": 1, "d": 24, "w": 168, "m": 730, "y": 8766, "ч": 1, "д": 24, "н": 168, "м": 730, "\u0433": 8766}
_DAYS_AGO = {"today": 0, "сегодня": 0, "yesterday": 1, "вчера": 1}
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
_PLAIN = re.compile(r"\S+")
_APART = re.compile(r'["()\s]+')  # signs that no value of a filter can have
# How each field of Filters is written.
WRITTEN = {"channels": "channel", "tags": "tag", "topics": "topic", "languages": "lang", "has": "has", "marks": "is"}


class Mark(StrEnum):
    """What can be true of a post."""

    EDITED = "edited"
    DELETED = "deleted"
    FORWARDED = "forwarded"
    AD = "ad"


class Trouble(StrEnum):
    """What of a query could not be followed."""

    CUT = "only the first {value} characters are searched for"
    TOO_MANY = "only the first {value} words are searched for"
    UNKNOWN_HAS = "has:{value} is not known; there are photo, video, link, album, document, audio, voice, animation"
    UNKNOWN_MARK = "is:{value} is not known; there are is:edited, is:deleted, is:forwarded and is:ad"
    NO_DATE = "{value} is no date; write 2024-07-15, 2024-07, today, yesterday, 12h, 7d or 3w"
    NO_LANGUAGE = "lang:{value} is no language; write two letters, as in lang:ru"
    ONLY_LEFT_OUT = "there are only words to leave out: these are the newest posts without them"
    LONE_QUOTE = 'a quotation mark has no pair: the words are searched for one by one; write a phrase "like this"'
    NO_SUCH_CHANNEL = "you have no channel {value}"
    NO_WORDS = "there is no word in it: write at least one, or a filter"
    SPELT = "searched for {value} as well; write + before a word to find it only as it is written"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a query, for its author."""

    trouble: Trouble
    value: str = ""

    def __str__(self) -> str:
        """In English; a page may say it in another language."""
        return self.trouble.format(value=self.value)


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or several side by side; `exact`: in these very forms; `foreign`: a translation of what was asked for."""

    words: tuple[str, ...]
    exact: bool = False
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """One of these terms; a required one must be there, the others only count. `others`: the same by other names."""

    options: tuple[Term, ...]
    required: bool = False
    others: tuple[Term, ...] = ()
    quoted: bool = False  # a word that need not be there, but is meant as it is written


@dataclass(frozen=True, slots=True)
class Filters:
    """Values by what they narrow. Of tags, `has` and marks all must fit, of the others any."""

    channels: tuple[str, ...] = ()  # as they were written
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether it narrows anything."""
        return any(getattr(self, one.name) for one in fields(self))


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to look for."""

    clauses: tuple[Clause, ...] = ()
    unwanted: tuple[Term, ...] = ()
    only: Filters = NO_FILTERS
    without: Filters = NO_FILTERS
    since: datetime | None = None
    before: datetime | None = None
    notes: tuple[Note, ...] = ()

    @property
    def words(self) -> str:
        """What it says, without operators, signs and translations: to be understood by meaning."""
        terms = [term for clause in self.clauses for term in clause.options if not term.foreign]
        return " ".join(word for term in terms for word in term.words if not is_sign(word))

    @property
    def translated(self) -> bool:
        return any(term.foreign for clause in self.clauses for term in clause.options)

    @property
    def wants_deleted(self) -> bool:
        return Mark.DELETED in self.only.marks


@dataclass
class _Parts:
    """A query while it is read."""

    asked_at: datetime
    clauses: list[Clause] = field(default_factory=list)
    unwanted: list[Term] = field(default_factory=list)
    only: dict[str, list[str]] = field(default_factory=dict)
    without: dict[str, list[str]] = field(default_factory=dict)
    since: datetime | None = None
    before: datetime | None = None
    notes: list[Note] = field(default_factory=list)
    joined: bool = False  # the last thing read was OR
    wordless: bool = False  # emoji are all that it says

    def note(self, trouble: Trouble, value: object = "") -> str:
        """Nothing comes back, for what is told of here is not searched for."""
        remark = Note(trouble, str(value)[:60])
        if remark not in self.notes:
            self.notes.append(remark)
        return ""


def parse_query(text: str, *, now: datetime) -> Query:
    """Never fails. `now` says what today is, and in which time zone dates are meant."""
    parts = _Parts(now)
    if len(text) > LONGEST:
        parts.note(Trouble.CUT, LONGEST)
    readable = _SEPARATORS.sub(" ", text[:LONGEST]).translate(_QUOTES)
    tokens = list(_TOKEN.finditer(readable))
    said = [token[0] for token in tokens if token[0] not in _OR | _AND and _filter_of(token) is None]
    parts.wordless = not _WORD.search(" ".join(said))
    for token in tokens:
        _read(token, parts)
    if readable.count('"') % 2 and any(_has_lone_quote(token["plain"] or "") for token in tokens):
        parts.note(Trouble.LONE_QUOTE)
    if parts.unwanted and not parts.clauses and not parts.only:
        parts.note(Trouble.ONLY_LEFT_OUT)
    if text.strip() and not (parts.clauses or parts.unwanted or parts.notes or _narrowed(parts)):
        parts.note(Trouble.NO_WORDS)
    return Query(
        clauses=tuple(parts.clauses),
        unwanted=tuple(parts.unwanted),
        only=_filters(parts.only),
        without=_filters(parts.without),
        since=parts.since,
        before=parts.before,
        notes=tuple(parts.notes),
    )


def _narrowed(parts: _Parts) -> bool:
    return bool(parts.only or parts.without or parts.since or parts.before)


def without_filters(text: str) -> str:
    """What a question says, without where to look for the answer."""

    def kept(token: re.Match[str]) -> str:
        return "" if (token["name"] or "").casefold() in _NAMES else token[0]

    return " ".join(_TOKEN.sub(kept, text[:LONGEST].translate(_QUOTES)).split())


def filters_in(text: str) -> Iterator[tuple[str, str, str]]:
    """The filters of a query as they are written, each with its field of `Filters` (or since, before) and its value."""
    for token in filter_tokens(text):
        value = token["quoted"] if token["quoted"] is not None else token["plain"]
        yield token[0], _NAMES[token["name"].casefold()], value.strip('"')


def filter_tokens(text: str) -> Iterator[re.Match[str]]:
    """The filters where they stand: what is read as something else has as many signs as what was written."""
    for token in _TOKEN.finditer(_SEPARATORS.sub(" ", text[:LONGEST]).translate(_QUOTES)):
        if (token["name"] or "").casefold() in _NAMES:
            yield token


def words_in(text: str) -> Iterator[re.Match[str]]:
    """The words of a text where they stand, as the language and the index see them."""
    return _WORD.finditer(text)


def _read(token: re.Match[str], parts: _Parts) -> None:
    if token[0] in _OR:
        parts.joined = bool(parts.clauses)
        return
    if token[0] in _AND:
        return
    name = _filter_of(token)
    value = token["quoted"] if token["quoted"] is not None else token["plain"]
    if name is not None:
        _read_filter(name, value.strip('"'), token["sign"], parts)
        parts.joined = False
        return
    signs = emoji_in(value) if parts.wordless or token["sign"] else []
    if token["quoted"] is None:
        signs += hashtags_in(value)
        value = without_hashtags(value)
    # A name that is none of ours belongs to the words, as in 12:30 or https://example.org.
    words = tuple(found[0] for found in words_in(f"{token['name'] or ''} {value}"))
    terms = [Term((sign,), exact=True) for sign in signs]
    if words:
        terms.append(Term(words, exact=token["exact"] is not None))
    for term in terms:
        _add_term(term, token, parts)
        parts.joined = False


def _filter_of(token: re.Match[str]) -> str | None:
    return _NAMES.get((token["name"] or "").casefold())


def _has_lone_quote(plain: str) -> bool:
    return plain.count('"') % 2 == 1 and not _INCHES.search(plain)


def _add_term(term: Term, token: re.Match[str], parts: _Parts) -> None:
    if len(parts.clauses) + len(parts.unwanted) >= MOST_CLAUSES:
        parts.note(Trouble.TOO_MANY, MOST_CLAUSES)
    elif token["sign"] in _MINUS:
        parts.unwanted.append(term)
    elif parts.joined:
        last = parts.clauses.pop()
        parts.clauses.append(Clause((*last.options, term)[:MOST_CLAUSES], required=True))
    else:
        insists = token["sign"] == "+" or term.exact or (token["quoted"] is not None and len(term.words) > 1)
        parts.clauses.append(Clause((term,), insists, quoted=token["quoted"] is not None and not insists))


def _read_filter(name: str, value: str, sign: str | None, parts: _Parts) -> None:
    value = " ".join(value.split())
    if name in ("since", "before"):
        _read_date(name, value, parts)
        return
    known = _known(name, value, parts)
    into = parts.without if sign in _MINUS else parts.only
    values = into.setdefault(name, [])
    if known and known not in values and len(values) < MOST_VALUES:
        values.append(known)
    if not values:
        del into[name]


def _known(name: str, value: str, parts: _Parts) -> str:
    """The value as the indexes have it; empty for one that says nothing."""
    folded = value.casefold()
    if name == "has":
        return _HAS.get(folded) or parts.note(Trouble.UNKNOWN_HAS, value)
    if name == "marks":
        return folded if folded in set(Mark) else parts.note(Trouble.UNKNOWN_MARK, value)
    if name == "languages":
        return folded if re.fullmatch("[a-z]{2,3}", folded) else parts.note(Trouble.NO_LANGUAGE, value)
    return value if name == "channels" else folded.removeprefix("#")


def _read_date(name: str, value: str, parts: _Parts) -> None:
    found = moment(value, parts.asked_at)
    if found is None:
        parts.note(Trouble.NO_DATE, value)
    elif name == "since":
        parts.since = max(parts.since or found, found)
    else:
        parts.before = min(parts.before or found, found)


def _filters(values: dict[str, list[str]]) -> Filters:
    return Filters(**{name: tuple(found) for name, found in values.items()})


def moment(text: str, now: datetime) -> datetime | None:
    """The start of what is named, in the time zone of `now`; None for what is no date."""
    words = text.strip().casefold()
    if words in _DAYS_AGO:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=_DAYS_AGO[words])).astimezone(UTC)
    if found := _AGO.fullmatch(words):
        return _ago(int(found[1]) * _HOURS[found[2]], now)
    if found := _ISO.fullmatch(words):
        return _start(int(found[1]), int(found[2] or 1), int(found[3] or 1), now)
    if found := _DAY_FIRST.fullmatch(words):
        return _start(int(found[3]), int(found[2]), int(found[1]), now)
    return None


def _ago(hours: int, now: datetime) -> datetime:
    first = datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC)
    return max(first, now.astimezone(UTC) - timedelta(hours=min(hours, 24 * 366 * 100)))


def _start(year: int, month: int, day: int, now: datetime) -> datetime | None:
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return None
    try:
        return datetime(year, month, day, tzinfo=now.tzinfo).astimezone(UTC)
    except ValueError:  # the 31st of February
        return None


def with_filter(text: str, field: str, value: str) -> str:
    """The query with the filter, at its end; as it is if it has it already."""
    value = _tidy(value)
    if has_filter(text, field, value):
        return text
    written = value if _PLAIN.fullmatch(value) else f'"{value}"'
    return f"{text[:LONGEST].strip()} {WRITTEN[field]}:{written}".strip()


def without_filter(text: str, written: str) -> str:
    """The query without this filter, in either language that it may be written in."""
    kept = text[:LONGEST]
    unwanted = {_same_filter(token) for token in filter_tokens(written)}
    for token in reversed(list(filter_tokens(kept))):
        if _same_filter(token) in unwanted:
            kept = f"{kept[: token.start()]} {kept[token.end() :]}"
    return " ".join(kept.split())


def _same_filter(token: re.Match[str]) -> tuple[bool, str, str]:
    value = token["quoted"] if token["quoted"] is not None else token["plain"]
    return token["sign"] in _MINUS, _NAMES[token["name"].casefold()], _tidy(value.strip('"')).casefold()


def has_filter(text: str, field: str, value: str) -> bool:
    folded = _tidy(value).casefold()
    return any(
        name == field and _tidy(found).casefold() == folded and token[:1] not in _MINUS
        for token, name, found in filters_in(text)
    )


def is_writable(value: str) -> bool:
    """Whether a filter can have it."""
    return _tidy(value) == value


def _tidy(value: str) -> str:
    return _APART.sub(" ", value).strip()
