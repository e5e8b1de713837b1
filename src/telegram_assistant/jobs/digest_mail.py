"""Issues by e-mail: as text and as simple HTML, every sentence with its sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from pathlib import Path

import aiosmtplib

from telegram_assistant.config import Settings
from telegram_assistant.domain.digests import Cited, Sentence, Told
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.jobs.digest_delivery import Parcel
from telegram_assistant.jobs.digest_words import Says, correction_words, coverage_lines, period_words, says, zone_of
from telegram_assistant.tls import distrust, verified_tls

TIMEOUT = 30.0  # seconds
LATER = 500  # answers of a mail server below mean: try again
SHOWN = 200  # characters of what a server says


@dataclass(frozen=True, slots=True)
class MailServer:
    """Who takes our mail; without a host nobody does."""

    host: str | None
    port: int = 587
    security: str = "starttls"  # starttls | tls | none
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str | None = None
    ca_file: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> MailServer:
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
    message.add_alternative("\n".join(_html(parcel, t, period)), subtype="html")
    return message


def _text(parcel: Parcel, t: Says, period: str) -> Iterator[str]:
    content = parcel.shown.content
    yield from (parcel.digest.wish.name, period, "")
    if not content.stories:
        yield t("digests.nothing")
    for number, story in enumerate(content.stories, start=1):
        yield f"{number}. " + " ".join(_sentence(one, t) for one in story.sentences)
        yield from (f"   {cited.channel}: {cited.url}" for cited in _sources(story, content.cited))
        yield from (f"   ! {words}" for words in _corrections(parcel, story, t))
        yield ""
    yield from ("-- ", *_coverage(parcel, t))
    if parcel.page:
        yield f"{t('digests.receipts')}: {parcel.page}"


def _html(parcel: Parcel, t: Says, period: str) -> Iterator[str]:
    content = parcel.shown.content
    yield f"<!doctype html><html lang='{parcel.digest.wish.language}'><body>"
    yield f"<h2>{escape(parcel.digest.wish.name)}</h2><p>{escape(period)}</p>"
    if not content.stories:
        yield f"<p>{escape(t('digests.nothing'))}</p>"
    yield "<ol>"
    for story in content.stories:
        links = ", ".join(
            f'<a href="{escape(one.url)}">{escape(one.channel)}</a>' for one in _sources(story, content.cited)
        )
        said = " ".join(escape(_sentence(one, t)) for one in story.sentences)
        yield f"<li><p>{said}<br><small>{links}</small></p>"
        yield from (f"<p><b>{escape(words)}</b></p>" for words in _corrections(parcel, story, t))
        yield "</li>"
    yield "</ol><hr><p><small>" + "<br>".join(map(escape, _coverage(parcel, t))) + "</small></p>"
    if parcel.page:
        yield f'<p><a href="{escape(parcel.page)}">{escape(t("digests.receipts"))}</a></p>'
    yield "</body></html>"


def _sentence(sentence: Sentence, t: Says) -> str:
    return sentence.text or t("digests.removed")


def _sources(story: Told, cited: tuple[Cited, ...]) -> list[Cited]:
    return [cited[number] for number in dict.fromkeys(one for said in story.sentences for one in said.sources)]


def _corrections(parcel: Parcel, story: Told, t: Says) -> list[str]:
    zone, language = zone_of(parcel.digest.wish.schedule), parcel.digest.wish.language
    found = [one for said in story.sentences for one in parcel.shown.corrections_of(said)]
    return list(dict.fromkeys(correction_words(one, t, zone, language) for one in found))


def _coverage(parcel: Parcel, t: Says) -> list[str]:
    wish = parcel.digest.wish
    return coverage_lines(parcel.shown.content, t, zone_of(wish.schedule), wish.language)


def _refusal(code: int, said: str, hint: str) -> Retry | Reject:
    words = f"The mail server refused it ({code} {' '.join(said.split())[:SHOWN]})"
    return Retry(words) if code < LATER else Reject(f"{words}: {hint}, then send it again")


def _said(exc: Exception) -> str:
    return " ".join(str(exc).split())[:SHOWN] or type(exc).__name__
