"""Issues of digests in their language: as words about themselves, as an Atom feed, and as e-mail in text and HTML.

The address of a feed is signed: it cannot be guessed, and no secret is stored for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import aiosmtplib

from telegram_assistant.access.credentials import Signer
from telegram_assistant.config import Settings
from telegram_assistant.domain.digests import (
    Behind,
    Cited,
    Content,
    Correction,
    Coverage,
    Digest,
    Frequency,
    Issue,
    Language,
    Schedule,
    Sentence,
    Told,
    zone_named,
)
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.i18n import load_texts
from telegram_assistant.jobs.digests import Parcel, ShownIssue
from telegram_assistant.tls import distrust, verified_tls

MOST_NAMED = 10  # channels that are not up to date
ATOM = "http://www.w3.org/2005/Atom"
FOREVER = datetime(2100, 1, 1, tzinfo=UTC)  # an address is good until its owner makes another
TIMEOUT = 30.0  # seconds
LATER = 500  # answers of a mail server below mean: try again
SHOWN = 200  # characters of what a server says

Says: TypeAlias = Callable[..., str]


def says(language: str) -> Says:
    return partial(load_texts(), language)


def schedule_words(schedule: Schedule, t: Says) -> str:
    at = f"{schedule.minute // 60:02}:{schedule.minute % 60:02}"
    if schedule.frequency is Frequency.WEEKLY:
        return t("digests.when_weekly", day=t(f"digests.weekday_{schedule.weekday}"), time=at, zone=schedule.zone)
    if schedule.frequency is Frequency.MONTHLY:
        return t("digests.when_monthly", day=schedule.day, time=at, zone=schedule.zone)
    return t("digests.when_daily", time=at, zone=schedule.zone)


def zone_of(schedule: Schedule) -> tzinfo:
    """UTC, should the zone have gone from the world's list since it was chosen."""
    try:
        return zone_named(schedule.zone)
    except ValueError:
        return UTC


def moment_words(moment: datetime, zone: tzinfo, language: str) -> str:
    return f"{moment.astimezone(zone):{'%d.%m.%Y %H:%M' if language == Language.RU else '%Y-%m-%d %H:%M'}}"


def period_words(since: datetime, until: datetime, zone: tzinfo, language: str) -> str:
    return f"{moment_words(since, zone, language)} \u2013 {moment_words(until, zone, language)}"


def coverage_lines(content: Content, t: Says, zone: tzinfo, language: str) -> list[str]:
    """What was read first, then each reason for leaving something out that there was."""
    return [*_read(content.coverage, t), *_left_out(content, t), *_behind(content.coverage, t, zone, language)]


def correction_words(correction: Correction, t: Says, zone: tzinfo, language: str) -> str:
    at = moment_words(correction.at, zone, language) if correction.at else ""
    return t(f"digests.correction_{correction.change}", at=at).strip()


def _read(coverage: Coverage, t: Says) -> Iterator[str]:
    posts, channels = t("digests.posts", n=coverage.posts), t("digests.channels_read", n=coverage.channels)
    yield t("digests.read", posts=posts, channels=channels)
    yield t("digests.fitting", posts=coverage.fitting, stories=t("digests.stories", n=coverage.stories))


def _left_out(content: Content, t: Says) -> Iterator[str]:
    coverage = content.coverage
    for reason in ("over_limit", "told_before", "ads", "wordless", "capped", "gone"):
        count = getattr(coverage, reason)
        if count:
            yield t(f"digests.left_{reason}", n=count)
    if content.without_model:
        yield t("digests.without_model", why=content.without_model)


def _behind(coverage: Coverage, t: Says, zone: tzinfo, language: str) -> Iterator[str]:
    if not coverage.behind:
        yield t("digests.up_to_date")
        return
    named = [_channel_behind(one, t, zone, language) for one in coverage.behind[:MOST_NAMED]]
    more = len(coverage.behind) - len(named)
    yield t("digests.behind", channels="; ".join(named)) + (t("digests.behind_more", n=more) if more else "")


def _channel_behind(one: Behind, t: Says, zone: tzinfo, language: str) -> str:
    since = moment_words(one.since, zone, language) if one.since else ""
    why = t(f"digests.behind_{one.reason}", n=one.unknown, since=since, error=one.error)
    return f"{one.channel} ({why})"


def feed_path(signer: Signer, digest: Digest) -> str:
    return f"/feeds/{digest.id}/{signer.sign(_parts(digest), expires=FOREVER)}"


def opens(signer: Signer, digest: Digest, token: str, now: datetime) -> bool:
    return signer.check(_parts(digest), token, now=now)


def _parts(digest: Digest) -> list[str]:
    return ["digest feed", str(digest.tenant_id), str(digest.id), str(digest.feed_version)]


def make_feed(digest: Digest, issues: Sequence[tuple[Issue, ShownIssue]], *, address: str, base: str) -> bytes:
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


def _entry(feed: ET.Element, digest: Digest, told: tuple[Issue, ShownIssue], base: str) -> None:
    issue, shown = told
    language, zone = digest.wish.language, zone_of(digest.wish.schedule)
    entry = ET.SubElement(feed, "entry")
    _add(entry, "id", f"urn:uuid:{issue.id}")
    _add(entry, "title", f"{digest.wish.name}: {period_words(issue.since, issue.until, zone, language)}")
    _add(entry, "published", (issue.built_at or issue.until).isoformat())
    _add(entry, "updated", max(_moments(issue, shown)).isoformat())
    page = f"{base}/digests/{digest.id}/issues/{issue.id}"
    ET.SubElement(entry, "link", {"rel": "alternate", "type": "text/html", "href": page})
    _add(entry, "content", _feed_html(digest, shown, says(language)), type="html")


def _moments(issue: Issue, shown: ShownIssue) -> list[datetime]:
    """When it came out, and when something in it had to be corrected."""
    return [issue.built_at or issue.until, *(one.at for one in shown.corrections if one.at)]


def _feed_html(digest: Digest, shown: ShownIssue, t: Says) -> str:
    language, zone = digest.wish.language, zone_of(digest.wish.schedule)
    content = shown.content
    parts = [] if content.stories else [f"<p>{escape(t('digests.nothing'))}</p>"]
    for heading, stories in content.sections:
        parts += [f"<h3>{escape(heading)}</h3>"] if heading else []
        for _, story in stories:
            parts.append(_story_html(story, content.cited, t))
            parts += [f"<p><b>{escape(words)}</b></p>" for words in _corrections(shown, story, t, zone, language)]
    lines = map(escape, coverage_lines(content, t, zone, language))
    return "".join([*parts, f"<hr><p><small>{'<br>'.join(lines)}</small></p>"])


def _add(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = _legible(text)


def _legible(text: str) -> str:
    """XML has no control characters, not even escaped."""
    return "".join(char for char in text if char >= " " or char in "\n\t")


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server that takes our mail; without a host there is none."""

    host: str | None
    port: int = 587
    security: str = "starttls"  # starttls | tls | none
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str | None = None
    ca_file: Path | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> MailServer:
        password = settings.smtp_password
        return cls(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_security,
            settings.smtp_user,
            password.get_secret_value() if password else None,
            settings.smtp_from,
            settings.tls_ca_file,
        )

    @property
    def mail_from(self) -> str:
        if self.sender:
            return self.sender
        return self.user if self.user and "@" in self.user else f"digest@{self.host}"


class Mail:
    """The way `email`."""

    name = "email"

    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def send(self, parcel: Parcel) -> None:
        server = self._server
        if not server.host:
            raise Reject("No mail server is set up here: an admin sets SMTP_HOST, then send it again")
        if not parcel.reader.email:
            raise Reject("Your account has no e-mail address: ask an admin to add one, then send it again")
        message = make_message(parcel, sender=server.mail_from, recipient=parcel.reader.email)
        try:
            await aiosmtplib.send(
                message,
                sender=server.mail_from,
                recipients=[parcel.reader.email],
                hostname=server.host,
                port=server.port,
                username=server.user,
                password=server.password,
                use_tls=server.security == "tls",
                start_tls=server.security == "starttls",
                tls_context=verified_tls(server.ca_file) if server.security != "none" else None,
                timeout=TIMEOUT,
            )
        except aiosmtplib.SMTPAuthenticationError as exc:
            raise Retry(f"The mail server does not know us ({_said(exc)}): check SMTP_USER and SMTP_PASSWORD") from exc
        except aiosmtplib.SMTPRecipientsRefused as exc:
            refused = exc.recipients[0]
            raise _refusal(refused.code, refused.message, "check the e-mail address of your account") from exc
        except aiosmtplib.SMTPResponseException as exc:
            raise _refusal(exc.code, exc.message, "ask an admin to look at SMTP_FROM and the mail server") from exc
        except (aiosmtplib.SMTPException, OSError, ValueError) as exc:
            raise Retry(
                f"The mail server cannot be used ({distrust(exc) or _said(exc)}): check SMTP_HOST, _PORT and _SECURITY"
            ) from exc


def make_message(parcel: Parcel, *, sender: str, recipient: str) -> EmailMessage:
    """Raises Reject for what is no address."""
    wish = parcel.digest.wish
    t, zone = says(wish.language), zone_of(wish.schedule)
    period = period_words(parcel.issue.since, parcel.issue.until, zone, wish.language)
    message = EmailMessage()
    try:
        message["From"] = Address(addr_spec=sender, display_name=t("base.name"))
        message["To"] = Address(addr_spec=recipient)
    except (ValueError, IndexError, MessageError) as exc:
        raise Reject(f"This is no e-mail address ({exc}): ask an admin to correct it, then send it again") from exc
    message["Subject"] = f"{wish.name}: {period}"
    message["Date"] = format_datetime(parcel.issue.built_at or parcel.issue.until)
    # The same for every attempt: who gets it twice can tell.
    message["Message-ID"] = f"<{parcel.issue.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(_text(parcel, t, period)))
    message.add_alternative("\n".join(_mail_html(parcel, t, period)), subtype="html")
    return message


def _text(parcel: Parcel, t: Says, period: str) -> Iterator[str]:
    content = parcel.shown.content
    yield from (parcel.digest.wish.name, period, "")
    if not content.stories:
        yield t("digests.nothing")
    for heading, stories in content.sections:
        yield from (heading.upper(), "") if heading else ()
        for number, story in stories:
            yield f"{number}. " + " ".join(_sentence(one, t) for one in story.sentences)
            yield from (f"   {cited.channel}: {cited.url}" for cited in _sources(story, content.cited))
            yield from (f"   ! {words}" for words in _parcel_corrections(parcel, story, t))
            yield ""
    yield from ("-- ", *_coverage(parcel, t))
    if parcel.page:
        yield f"{t('digests.receipts')}: {parcel.page}"


def _mail_html(parcel: Parcel, t: Says, period: str) -> Iterator[str]:
    content = parcel.shown.content
    yield f"<!doctype html><html lang='{parcel.digest.wish.language}'><body>"
    yield f"<h2>{escape(parcel.digest.wish.name)}</h2><p>{escape(period)}</p>"
    if not content.stories:
        yield f"<p>{escape(t('digests.nothing'))}</p>"
    for heading, stories in content.sections:
        yield f"<h3>{escape(heading)}</h3>" if heading else ""
        yield f"<ol start='{stories[0][0]}'>"
        for _, story in stories:
            yield f"<li>{_story_html(story, content.cited, t)}"
            yield from (f"<p><b>{escape(words)}</b></p>" for words in _parcel_corrections(parcel, story, t))
            yield "</li>"
        yield "</ol>"
    yield "<hr><p><small>" + "<br>".join(map(escape, _coverage(parcel, t))) + "</small></p>"
    if parcel.page:
        yield f'<p><a href="{escape(parcel.page)}">{escape(t("digests.receipts"))}</a></p>'
    yield "</body></html>"


def _sentence(sentence: Sentence, t: Says) -> str:
    return sentence.text or t("digests.removed")


def _story_html(story: Told, cited: tuple[Cited, ...], t: Says) -> str:
    """What it says, then its sources, each once."""
    said = " ".join(escape(_sentence(one, t)) for one in story.sentences)
    links = ", ".join(f'<a href="{escape(one.url)}">{escape(one.channel)}</a>' for one in _sources(story, cited))
    return f"<p>{said}<br><small>{links}</small></p>"


def _sources(story: Told, cited: tuple[Cited, ...]) -> list[Cited]:
    return [cited[number] for number in dict.fromkeys(one for said in story.sentences for one in said.sources)]


def _parcel_corrections(parcel: Parcel, story: Told, t: Says) -> list[str]:
    wish = parcel.digest.wish
    return _corrections(parcel.shown, story, t, zone_of(wish.schedule), wish.language)


def _corrections(shown: ShownIssue, story: Told, t: Says, zone: tzinfo, language: str) -> list[str]:
    found = [one for said in story.sentences for one in shown.corrections_of(said)]
    return list(dict.fromkeys(correction_words(one, t, zone, language) for one in found))


def _coverage(parcel: Parcel, t: Says) -> list[str]:
    wish = parcel.digest.wish
    return coverage_lines(parcel.shown.content, t, zone_of(wish.schedule), wish.language)


def _refusal(code: int, said: str, hint: str) -> Retry | Reject:
    words = f"The mail server refused it ({code} {' '.join(said.split())[:SHOWN]})"
    return Retry(words) if code < LATER else Reject(f"{words}: {hint}, then send it again")


def _said(exc: Exception) -> str:
    return " ".join(str(exc).split())[:SHOWN] or type(exc).__name__
