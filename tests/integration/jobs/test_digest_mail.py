"""Digests by e-mail, to a real server on loopback: taken, refused, busy, silent."""

from __future__ import annotations

import asyncio
import email
import email.policy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email.message import EmailMessage
from typing import Any, cast

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from telegram_assistant.domain.digests import Language, Way
from telegram_assistant.jobs.digest_formats import Mail, MailServer
from telegram_assistant.jobs.digests import SEND_ATTEMPTS, Limits

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
Press = Any

RATE = "Банк России поднял ключевую ставку до 21 процента R&D <годовых. Это самое высокое значение за двадцать лет."
USER, PASSWORD = "tga", "secret of a test"


class Postbox:
    """What the server got, and what it answers."""

    def __init__(self) -> None:
        self.mail: list[tuple[list[str], EmailMessage]] = []
        self.on_rcpt = self.on_data = "250 OK"
        self.port = 0

    async def handle_RCPT(self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if self.on_rcpt.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.on_rcpt

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - as above
        if self.on_data.startswith("250"):
            message = email.message_from_bytes(cast("bytes", envelope.content), policy=email.policy.default)
            self.mail.append((envelope.rcpt_tos, message))
        return self.on_data

    def server(self, **changes: Any) -> MailServer:
        known = {"port": self.port, "security": "none", "sender": "digest@news.test", **changes}
        return MailServer("127.0.0.1", **known)


@asynccontextmanager
async def serving(box: Postbox, **options: Any) -> AsyncIterator[Postbox]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(box, hostname="mail.test", loop=loop, **options), "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()


@pytest.fixture
async def box() -> AsyncIterator[Postbox]:
    async with serving(Postbox()) as made:
        yield made


async def asked(town: Town, press: Press, server: MailServer, *, address: str | None = "ann@news.test") -> Any:
    await town.archive.post(1, RATE)
    await town.archive.run("UPDATE users SET email = :email WHERE id = :id", email=address, id=town.member.user_id)
    press.deliveries = [Mail(server)]
    return await press.ask(town.member, ways=(Way.WEB, Way.EMAIL))


async def sending(press: Press, digest: Any) -> Any:
    issue = await press.newest(digest)
    (found,) = await press.issues.sendings(digest.tenant_id, [issue.id])
    return found


async def test_it_comes_as_text_and_html_with_its_sources(town: Town, press: Press, box: Postbox) -> None:
    digest = await asked(town, press, box.server())
    assert await press.day() == "1 due, 1 built, 1 sent"
    ((recipients, message),) = box.mail
    assert recipients == ["ann@news.test"]
    assert message["To"] == "ann@news.test"
    assert message["Subject"].startswith("Утро: 01.11.2026")
    issue = await press.newest(digest)
    assert message["Message-ID"] == f"<{issue.id}@news.test>"
    text, html = (part.get_content() for part in message.iter_parts())
    assert "ключевую ставку до 21 процента" in text
    assert text.count("https://t.me/daily_news/1") == html.count("https://t.me/daily_news/1") == 1, "a source once"
    assert "Прочитано: 1 пост в 2 каналах." in text
    assert "https://news.test/issue" in text
    assert 'href="https://t.me/daily_news/1"' in html
    assert "R&amp;D &lt;годовых" in html, "a post's markup is words"
    assert (await sending(press, digest)).state == "delivered"
    press.now += timedelta(minutes=1)
    assert await press.job(press.now) is None, "once"


@pytest.mark.parametrize("where", ["on_rcpt", "on_data"])
async def test_refused_mail_is_shown_with_what_to_do(town: Town, press: Press, box: Postbox, where: str) -> None:
    setattr(box, where, "550 5.1.1 no such user here")
    digest = await asked(town, press, box.server())
    await press.day()
    found = await sending(press, digest)
    assert (found.state, found.attempts) == ("dead", 1)
    assert "550" in found.error
    assert "no such user here" in found.error
    assert "then send it again" in found.error
    setattr(box, where, "250 OK")
    issue = await press.newest(digest)
    assert await press.issues.send_again(issue, press.now)
    await press.job.send()
    assert (await sending(press, digest)).state == "delivered"
    assert len(box.mail) == 1


async def test_a_busy_server_is_asked_again(town: Town, press: Press, box: Postbox) -> None:
    box.on_data = "451 4.3.2 come back later"
    digest = await asked(town, press, box.server())
    await press.day()
    for attempt in range(1, SEND_ATTEMPTS):
        found = await sending(press, digest)
        assert (found.state, found.attempts) == ("waiting", attempt)
        assert found.due_at > press.now
        press.now = found.due_at
        await press.job.send()
    assert (await sending(press, digest)).state == "dead", "not for ever"


async def test_a_server_that_hangs_holds_up_one_run_for_a_moment_only(town: Town, press: Press) -> None:
    """Several wait for it: the run ends after the first, and everybody's next digest is made in time."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        box = Postbox()
        box.port = silent.sockets[0].getsockname()[1]
        digest = await asked(town, press, box.server())
        await press.ask(town.member, name="Второй", ways=(Way.WEB, Way.EMAIL))
        press.limits = Limits(parcel=0.3, sending=0.2)
        async with asyncio.timeout(300):
            assert await press.day() == "2 due, 2 built, 0 sent"
        tried = await town.archive.rows("SELECT attempts, error FROM digest_deliveries ORDER BY attempts DESC")
        assert [one.attempts for one in tried] == [1, 0]
        assert tried[0].error == "It was not taken within 0.3 s"
        assert (await sending(press, digest)).state == "waiting"


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
async def test_a_server_that_is_not_there_or_does_not_know_us(town: Town, press: Press) -> None:
    box = Postbox()
    box.port = 1  # nobody listens there
    digest = await asked(town, press, box.server())
    await press.day()
    found = await sending(press, digest)
    assert found.state == "waiting"
    assert "check SMTP_HOST, _PORT and _SECURITY" in found.error

    def check(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        ours = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=ours, handled=False)

    async with serving(box, authenticator=check, auth_required=True, auth_require_tls=False) as strict:
        press.deliveries = [Mail(strict.server(user=USER, password="wrong"))]
        press.now = found.due_at
        await press.job.send()
        found = await sending(press, digest)
        assert "check SMTP_USER and SMTP_PASSWORD" in found.error
        assert PASSWORD not in found.error
        press.deliveries = [Mail(strict.server(user=USER, password=PASSWORD))]
        press.now = found.due_at
        await press.job.send()
        assert (await sending(press, digest)).state == "delivered"


@pytest.mark.parametrize("address", [None, "not an address", "two@news.test,three@news.test", "<x@news.test"])
async def test_what_is_no_address_gets_nothing(town: Town, press: Press, box: Postbox, address: str | None) -> None:
    digest = await asked(town, press, box.server(), address=address)
    await press.day()
    found = await sending(press, digest)
    assert found.state == "dead"
    assert "ask an admin" in found.error
    assert box.mail == []


async def test_without_a_server_the_reader_is_told(town: Town, press: Press) -> None:
    digest = await asked(town, press, MailServer(None))
    await press.day()
    assert "an admin sets SMTP_HOST" in (await sending(press, digest)).error


async def test_an_english_digest_of_nothing(town: Town, press: Press, box: Postbox) -> None:
    await asked(town, press, box.server())
    await town.archive.run("UPDATE digests SET language = :en, channels = '{200}'", en=Language.EN)
    await press.day()
    text = next(iter(box.mail[0][1].iter_parts())).get_content()
    assert "There was nothing to tell in this time." in text
    assert "Read: 0 posts in 1 channel." in text
    assert "Not up to date: Sport (not read yet)" in text
