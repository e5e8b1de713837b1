"""The feed of a digest (Atom): its address is signed, so that nobody can guess it and nothing secret is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from xml.etree import ElementTree as ET

from telegram_assistant.access.signing import Signer
from telegram_assistant.domain.digests import Digest, Issue
from telegram_assistant.jobs.digest_desk import Shown
from telegram_assistant.jobs.digest_words import Says, correction_words, coverage_lines, period_words, says, zone_of

ATOM = "http://www.w3.org/2005/Atom"
FOREVER = datetime(2100, 1, 1, tzinfo=UTC)  # an address is good until its owner makes another


def feed_path(signer: Signer, digest: Digest) -> str:
    return f"/feeds/{digest.id}/{signer.sign(_parts(digest), expires=FOREVER)}"


def opens(signer: Signer, digest: Digest, token: str, now: datetime) -> bool:
    return signer.check(_parts(digest), token, now=now)


def _parts(digest: Digest) -> list[str]:
    return ["digest feed", str(digest.tenant_id), str(digest.id), str(digest.feed_version)]


def make_feed(digest: Digest, issues: Sequence[tuple[Issue, Shown]], *, address: str, base: str) -> bytes:
    """`address`: of the feed itself; `base`: of the pages."""
    t = says(digest.wish.language)
    feed = ET.Element("feed", {"xmlns": ATOM, "xml:lang": digest.wish.language})
    updated = max((moment for issue, shown in issues for moment in _moments(issue, shown)), default=digest.created_at)
    _add(feed, "id", f"urn:uuid:{digest.id}")
    _add(feed, "title", digest.wish.name)
    _add(feed, "updated", updated.isoformat())
    ET.SubElement(feed, "link", {"rel": "self", "href": address})
    ET.SubElement(ET.SubElement(feed, "author"), "name").text = t("base.name")
    for issue, shown in issues:
        _entry(feed, digest, (issue, shown), base)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(feed, encoding="unicode").encode()


def _entry(feed: ET.Element, digest: Digest, told: tuple[Issue, Shown], base: str) -> None:
    issue, shown = told
    language, zone = digest.wish.language, zone_of(digest.wish.schedule)
    entry = ET.SubElement(feed, "entry")
    _add(entry, "id", f"urn:uuid:{issue.id}")
    _add(entry, "title", f"{digest.wish.name}: {period_words(issue.since, issue.until, zone, language)}")
    _add(entry, "published", (issue.built_at or issue.until).isoformat())
    _add(entry, "updated", max(_moments(issue, shown)).isoformat())
    page = f"{base}/digests/{digest.id}/issues/{issue.id}"
    ET.SubElement(entry, "link", {"rel": "alternate", "type": "text/html", "href": page})
    _add(entry, "content", _html(digest, shown, says(language)), type="html")


def _moments(issue: Issue, shown: Shown) -> list[datetime]:
    """When it came out, and when something in it had to be corrected."""
    return [issue.built_at or issue.until, *(one.at for one in shown.corrections if one.at)]


def _html(digest: Digest, shown: Shown, t: Says) -> str:
    language, zone = digest.wish.language, zone_of(digest.wish.schedule)
    content = shown.content
    parts = [] if content.stories else [f"<p>{escape(t('digests.nothing'))}</p>"]
    for story in content.stories:
        for sentence in story.sentences:
            sources = [content.cited[number] for number in sentence.sources]
            links = ", ".join(f'<a href="{escape(one.url)}">{escape(one.channel)}</a>' for one in sources)
            parts.append(f"<p>{escape(sentence.text or t('digests.removed'))} <small>[{links}]</small></p>")
            notes = dict.fromkeys(correction_words(one, t, zone, language) for one in shown.corrections_of(sentence))
            parts += [f"<p><b>{escape(words)}</b></p>" for words in notes]
    lines = map(escape, coverage_lines(content, t, zone, language))
    return "".join([*parts, f"<hr><p><small>{'<br>'.join(lines)}</small></p>"])


def _add(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = _legible(text)


def _legible(text: str) -> str:
    """XML has no control characters, not even escaped."""
    return "".join(char for char in text if char >= " " or char in "\n\t")
