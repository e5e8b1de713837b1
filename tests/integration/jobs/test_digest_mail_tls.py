"""Mail over TLS: the server's certificate is verified before a password is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from telegram_assistant.config import Settings
from telegram_assistant.jobs.digest_formats import MailServer
from tests.integration.jobs.test_digest_mail import Postbox, asked, sending, serving
from tests.integration.tls.authority import make_trust

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
Press = Any


def settings_of(box: Postbox, ca_file: Path) -> Settings:
    return Settings(smtp_host="localhost", smtp_port=box.port, smtp_from="digest@news.test", tls_ca_file=ca_file)


async def test_starttls_with_an_authority_of_ours(town: Town, press: Press, tmp_path: Path) -> None:
    trust = make_trust(tmp_path)
    async with serving(Postbox(), tls_context=trust.server(), require_starttls=True) as box:
        await asked(town, press, MailServer.from_settings(settings_of(box, trust.ca_file)))
        assert await press.day() == "1 due, 1 built, 1 sent"
        assert len(box.mail) == 1


async def test_a_server_of_a_stranger_gets_nothing(town: Town, press: Press, tmp_path: Path) -> None:
    trust = make_trust(tmp_path)
    async with serving(Postbox(), tls_context=trust.server(), require_starttls=True) as box:
        server = replace(MailServer.from_settings(settings_of(box, trust.stranger)), user="tga", password="s3cret")
        assert "s3cret" not in repr(server)
        digest = await asked(town, press, server)
        await press.day()
        assert box.mail == []
        found = await sending(press, digest)
        assert found.state != "delivered"
        assert "certificate is not trusted" in found.error
        assert "TLS_CA_FILE" in found.error


async def test_a_server_without_tls_gets_nothing(town: Town, press: Press, tmp_path: Path) -> None:
    async with serving(Postbox()) as box:
        await asked(town, press, MailServer.from_settings(settings_of(box, make_trust(tmp_path).ca_file)))
        await press.day()
        assert box.mail == []
