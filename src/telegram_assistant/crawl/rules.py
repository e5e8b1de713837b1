"""Which links of a post deserve to be read: rules from a file, and a sentence for every decision (SPEC 4.7)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

from telegram_assistant.domain.urls import (
    NO_HOSTS,
    Allowance,
    BadUrl,
    Url,
    ascii_host,
    canonical,
    forbidden,
    is_telegram,
    parse_url,
)
from telegram_assistant.errors import Fatal

DEFAULT_RULES = "rules.toml"


class Rule(StrEnum):
    """What decided about a link."""

    ADDRESS = "address"  # it is no web address, or one that is not for us
    TELEGRAM = "telegram"
    SHORT_POST = "short_post"
    SUBJECT = "subject"  # the post is about something else
    DENIED = "denied"
    NOT_ALLOWED = "not_allowed"
    SOCIAL = "social"
    SHORTENER = "shortener"
    FILE = "file"
    HOME_PAGE = "home_page"
    REPEATED = "repeated"
    MOST_LINKS = "most_links"
    ARTICLE = "article"  # the only one that says yes


class Interests(StrEnum):
    """What users' interests change."""

    IGNORE = "ignore"
    ALSO = "also"  # a post of interest is read even where its topics and tags are not asked for
    ONLY = "only"  # only posts of interest are read


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlRules:
    """One file of rules; `rules.toml` explains each."""

    least_text: int = 0
    topics: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    interests: Interests = Interests.ALSO
    most_links: int = 3
    home_pages: bool = False
    skip_extensions: frozenset[str] = frozenset()
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()
    social: frozenset[str] = frozenset()
    read_social: bool = False
    shorteners: frozenset[str] = frozenset()
    follow_shorteners: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is known of the post: its text, what it is about, and what its readers want."""

    text: str
    topics: Collection[str] = ()
    tags: Collection[str] = ()
    interests: Collection[str] = ()  # of all users who see this post; words that may be topics or tags


@dataclass(frozen=True, slots=True)
class LinkDecision:
    """What becomes of one link, and why."""

    url: str  # canonical when it will be read, else as it was written
    crawl: bool
    rule: Rule
    reason: str


class BadRules(ValueError):
    """The file of rules cannot be used; the message names the line to correct."""


def decide(
    links: Sequence[str], subject: Subject, rules: CrawlRules, *, allow: Allowance = NO_HOSTS
) -> tuple[LinkDecision, ...]:
    """One decision per link, in their order."""
    decisions: list[LinkDecision] = []
    taken: set[str] = set()
    whole_post = _about_the_post(subject, rules)
    for link in links:
        decision = _decide_one(link, whole_post, rules, allow)
        if decision.crawl and decision.url in taken:
            decision = _no(link, Rule.REPEATED, "the same page is linked earlier in this post")
        elif decision.crawl and len(taken) >= rules.most_links:
            decision = _no(link, Rule.MOST_LINKS, f"at most {rules.most_links} links of a post are read")
        if decision.crawl:
            taken.add(decision.url)
        decisions.append(decision)
    return tuple(decisions)


def parse_rules(text: str, base: CrawlRules | None = None) -> CrawlRules:
    """Rules from TOML; what it does not mention stays as in `base`. Raises BadRules."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise BadRules(f"not proper TOML: {exc}") from exc
    values = {}
    for table, keys in tables.items():
        known = _KEYS.get(table)
        if known is None or not isinstance(keys, dict):
            raise BadRules(f"there is no table [{table}]; there are {', '.join(f'[{name}]' for name in _KEYS)}")
        for key, value in keys.items():
            if key not in known:
                raise BadRules(f"[{table}] has no {key}; it has {', '.join(known)}")
            values[key] = known[key](f"[{table}] {key}", value)
    return replace(base or CrawlRules(), **values)


def _about_the_post(subject: Subject, rules: CrawlRules) -> tuple[Rule, str] | None:
    """Why no link of this post is read; None: each is judged by itself."""
    if len(subject.text.strip()) < rules.least_text:
        return Rule.SHORT_POST, f"the post has fewer than {rules.least_text} characters"
    about = _folded(subject.topics) | _folded(subject.tags)
    interesting = bool(about & _folded(subject.interests))
    if rules.interests is Interests.ONLY:
        return None if interesting else (Rule.SUBJECT, "no user's interests match the topics and tags of the post")
    if rules.interests is Interests.ALSO and interesting:
        return None
    if not rules.topics and not rules.tags:
        return None
    if _folded(subject.topics) & rules.topics or _folded(subject.tags) & rules.tags:
        return None
    return Rule.SUBJECT, "the post has none of the topics and tags that are asked for"


def _decide_one(link: str, whole_post: tuple[Rule, str] | None, rules: CrawlRules, allow: Allowance) -> LinkDecision:
    if link.lower().startswith("tg:"):
        return _no(link, Rule.TELEGRAM, "it leads into Telegram")
    try:
        url = canonical(parse_url(link))
    except BadUrl as exc:
        return _no(link, Rule.ADDRESS, str(exc))
    against = next((found for found in _objections(url, rules, allow) if found), None) or whole_post
    if against is not None:
        return _no(link, *against)
    return LinkDecision(str(url), crawl=True, rule=Rule.ARTICLE, reason="an ordinary link to a page")


def _objections(url: Url, rules: CrawlRules, allow: Allowance) -> Iterator[tuple[Rule, str] | None]:
    """Each rule about an address in turn; the first that objects decides."""
    if is_telegram(url):
        yield Rule.TELEGRAM, "it leads into Telegram"
    closed = forbidden(url, allow)
    if closed:
        yield Rule.ADDRESS, closed
    denied = _listed(url.host, rules.deny)
    if denied:
        yield Rule.DENIED, f"{denied} is on the list of domains that are not read"
    if rules.allow and not _listed(url.host, rules.allow):
        yield Rule.NOT_ALLOWED, f"{url.host} is not on the list of domains that are read"
    social = _listed(url.host, rules.social)
    if social and not rules.read_social:
        yield Rule.SOCIAL, f"{social} is a social network or a player: no article to read"
    shortener = _listed(url.host, rules.shorteners)
    if shortener and not rules.follow_shorteners:
        yield Rule.SHORTENER, f"{shortener} hides where its links lead"
    extension = _extension(url.path)
    if extension in rules.skip_extensions:
        yield Rule.FILE, f"a .{extension} file is no page"
    if url.path == "/" and not url.query and not rules.home_pages:
        yield Rule.HOME_PAGE, "a site's front page is no article"


def _no(link: str, rule: Rule, reason: str) -> LinkDecision:
    return LinkDecision(link, crawl=False, rule=rule, reason=reason)


def _listed(host: str, domains: frozenset[str]) -> str | None:
    """The listed domain that this host is or belongs to."""
    labels = host.split(".")
    names = (".".join(labels[at:]) for at in range(len(labels)))
    return next((name for name in names if name in domains), None)


def _extension(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""


def _folded(words: Collection[str]) -> frozenset[str]:
    return frozenset(word.strip().casefold() for word in words)


def _number(where: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100_000:
        raise BadRules(f"{where} must be a number from 0 to 100000, not {value!r}")
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadRules(f"{where} must be true or false, not {value!r}")
    return value


def _words(where: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) and word.strip() for word in value):
        raise BadRules(f'{where} must be a list of words, like ["one", "two"], not {value!r}')
    return _folded(value)


def _extensions(where: str, value: Any) -> frozenset[str]:
    return frozenset(word.removeprefix(".") for word in _words(where, value))


def _domains(where: str, value: Any) -> frozenset[str]:
    domains = []
    for word in _words(where, value):
        try:
            domains.append(ascii_host(word))
        except BadUrl as exc:
            raise BadRules(f"{where}: {word!r} is no domain: write it like example.com") from exc
    return frozenset(domains)


def _interests(where: str, value: Any) -> Interests:
    if not isinstance(value, str) or value not in set(Interests):
        raise BadRules(f"{where} must be one of {', '.join(Interests)}, not {value!r}")
    return Interests(value)


_KEYS: dict[str, dict[str, Callable[[str, Any], Any]]] = {
    "posts": {"least_text": _number, "topics": _words, "tags": _words, "interests": _interests},
    "links": {"most_links": _number, "home_pages": _flag, "skip_extensions": _extensions},
    "domains": {
        "allow": _domains,
        "deny": _domains,
        "social": _domains,
        "read_social": _flag,
        "shorteners": _domains,
        "follow_shorteners": _flag,
    },
}


def load_rules(path: Path | None = None) -> CrawlRules:
    """The shipped rules, changed by the file at `path`. Raises Fatal with the line to correct."""
    shipped = parse_rules(files(__package__).joinpath(DEFAULT_RULES).read_text("utf-8"))
    if path is None:
        return shipped
    try:
        return parse_rules(path.read_text("utf-8"), shipped)
    except OSError as exc:
        raise Fatal(f"Cannot read CRAWL_RULES_FILE {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise Fatal(f"CRAWL_RULES_FILE {path} is not UTF-8 text") from exc
    except BadRules as exc:
        raise Fatal(f"CRAWL_RULES_FILE {path}: {exc}") from exc
