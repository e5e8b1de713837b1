"""The page about security names tests that exist, and promises what the settings keep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from telegram_assistant.config import Settings

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
PAGES = ("docs/security.md", "docs/howto/tls.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_is_there(page: str) -> None:
    named = set(re.findall(r"`(tests/[\w./]+)`", (ROOT / page).read_text("utf-8")))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_that_is_named_is_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b", text))
    others = {"FORWARDED_ALLOW_IPS", "OTEL_EXPORTER_OTLP_CERTIFICATE"}
    assert named - others <= {name.upper() for name in Settings.model_fields}


def test_nothing_goes_out_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    settings = Settings()
    providers = [getattr(settings, name) for name in Settings.model_fields if name.endswith("_provider")]
    assert providers == ["local"] * 4
    assert (settings.api_host, settings.worker_health_host, settings.bot_health_host) == ("127.0.0.1",) * 3
    assert settings.smtp_security == "starttls"
    assert settings.alert_loopback == ""
