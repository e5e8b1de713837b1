"""Settings: one class, and errors of one line that tell no secret (SPEC 6.6). test_docs.py compares `env.example`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from telegram_assistant.config import Settings, TelegramServer, load_settings
from telegram_assistant.errors import Fatal

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the developer's variables nor the project's .env reach a test."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def test_every_variable_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_env_example_as_env_file_gives_the_defaults(tmp_path: Path) -> None:
    defaults = Settings()
    (tmp_path / ".env").write_text((ROOT / "env.example").read_text(encoding="utf-8"), encoding="utf-8")
    assert Settings() == defaults


def test_defaults_that_operators_rely_on() -> None:
    """SPEC 1 to 3, 6 and 8."""
    settings = Settings()
    assert settings.parser_scheduler_interval_sec == 300
    assert settings.parser_max_concurrency == 4
    assert settings.parser_retry_max == 3
    assert settings.lpa_max_age_hours == 48
    assert settings.parser_stats_window_days == 14
    assert settings.tagging_min_chars == 80
    assert settings.parser_mode_override == "auto"
    assert settings.ingest_health_port == 8011
    assert settings.ingest_health_host == "127.0.0.1", "loopback unless somebody asks for more"
    assert settings.feature_incremental_parsing_enabled
    assert settings.feature_adaptive_thresholds_enabled


def test_empty_values_are_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("INGEST_HEALTH_PORT", "")
    monkeypatch.setenv("HOSTNAME", "")
    settings = load_settings()
    assert settings.database_url is None
    assert settings.ingest_health_port == 8011
    assert settings.hostname


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PARSER_RETRY_MAX=1\nTAGGING_MIN_CHARS=10\n", encoding="utf-8")
    monkeypatch.setenv("PARSER_RETRY_MAX", "2")
    settings = load_settings()
    assert (settings.parser_retry_max, settings.tagging_min_chars) == (2, 10)


@pytest.mark.parametrize(
    "name,value",
    [
        ("INGEST_HEALTH_PORT", "70000"),
        ("INGEST_HEALTH_PORT", "http"),
        ("PARSER_MAX_CONCURRENCY", "0"),
        ("PARSER_SCHEDULER_INTERVAL_SEC", "-5"),
        ("PARSER_MODE_OVERRIDE", "sometimes"),
        ("LOG_LEVEL", "LOUD"),
        ("TELEGRAM_SERVER", "127.0.0.1:443"),
        ("FEATURE_INCREMENTAL_PARSING_ENABLED", "perhaps\nor not"),
    ],
)
def test_a_wrong_value_is_one_line_with_name_and_value(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Fatal) as caught:
        load_settings()
    message = str(caught.value)
    assert message.startswith(f"{name}={value!r}: ")
    assert "\n" not in message


@pytest.mark.parametrize("value", ["inf", "1e300", "99999999999"])
@pytest.mark.parametrize(
    "name",
    [
        *("PARSER_SCHEDULER_INTERVAL_SEC", "POLLING_BOUND_SEC", "LPA_MAX_AGE_HOURS", "INGEST_LEASE_SEC"),
        *("AUDIT_INTERVAL_HOURS", "PARSER_STATS_WINDOW_DAYS", "WORKER_LEASE_SEC", "AI_TIMEOUT_SEC"),
        *("CRAWL_PAUSE_SEC", "CRAWL_TIMEOUT_SEC"),
    ],
)
def test_times_that_nobody_can_count_with_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Fatal, match=f"^{name}='{re.escape(value)}': Input should be"):
        load_settings()


def test_a_file_in_another_encoding_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes("SMTP_FROM=дайджест".encode("cp1251"))
    with pytest.raises(Fatal, match="is not UTF-8"):
        load_settings()


def test_all_wrong_values_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FORMAT", "xml")
    monkeypatch.setenv("PARSER_RETRY_MAX", "many")
    with pytest.raises(Fatal, match=r"PARSER_RETRY_MAX='many': .*; LOG_FORMAT='xml': "):
        load_settings()


def test_errors_tell_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TELEGRAM_API_HASH", "TELEGRAM_SESSION", "TGA_SECRET_KEY", "DATABASE_URL"):
        monkeypatch.setenv(name, f"s3cret-{name}")
    with pytest.raises(Fatal, match="belong together") as caught:
        load_settings()
    assert "s3cret" not in str(caught.value)
    # The cause ends up in a traceback at LOG_LEVEL=DEBUG.
    assert "s3cret" not in str(caught.value.__cause__)


def test_secrets_do_not_show_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:s3cret@h/d")
    assert "s3cret" not in repr(load_settings())


@pytest.mark.parametrize(
    "present,missing",
    [("TELEGRAM_API_ID", "TELEGRAM_API_HASH"), ("TELEGRAM_API_HASH", "TELEGRAM_API_ID")],
)
def test_half_an_application_is_refused(monkeypatch: pytest.MonkeyPatch, present: str, missing: str) -> None:
    monkeypatch.setenv(present, "12345")
    with pytest.raises(Fatal, match=missing):
        load_settings()


def test_a_session_without_its_application_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_SESSION", "1AbC")
    with pytest.raises(Fatal, match="TELEGRAM_SESSION needs TELEGRAM_API_ID"):
        load_settings()


def test_demo_is_what_runs_without_an_application(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().demo
    monkeypatch.setenv("TELEGRAM_API_ID", "12345")
    monkeypatch.setenv("TELEGRAM_API_HASH", "abc")
    assert not load_settings().demo


@pytest.mark.parametrize(
    "text,dc_id,host,port",
    [
        ("2:127.0.0.1:4430", 2, "127.0.0.1", 4430),
        ("1:telegram.example:443", 1, "telegram.example", 443),
        ("10002:[2001:67c:4e8:f002::a]:443", 10002, "2001:67c:4e8:f002::a", 443),
    ],
)
def test_telegram_server(text: str, dc_id: int, host: str, port: int) -> None:
    server = TelegramServer.parse(text)
    assert (server.dc_id, server.host, server.port) == (dc_id, host, port)


@pytest.mark.parametrize(
    "text",
    ["", "2", "2:host", "host:443", "2::443", "two:host:443", "2:host:https", "2:host:0", "2:host:65536", "-2:host:1"],
)
def test_not_a_telegram_server(text: str) -> None:
    with pytest.raises(ValueError, match="is not dc:host:port"):
        TelegramServer.parse(text)
