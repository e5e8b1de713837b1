"""What the doctor says of connections that can be read on the way, and when PostgreSQL is verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import certifi
import pytest

from telegram_assistant.config import Settings
from telegram_assistant.doctor import Level
from telegram_assistant.doctor.servers import look_at_encryption
from telegram_assistant.stores.postgres.database import parse_address, tls_of

pytestmark = pytest.mark.unit

AUTHORITIES = Path(certifi.where())
REMOTE = "postgresql://me:s3cret@db.example.org/tga"


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def said(**settings: Any) -> str:
    return "\n".join(f"{one.level} {one.what} → {one.todo}" for one in look_at_encryption(Settings(**settings)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"database_url": "postgresql://me:s3cret@127.0.0.1/tga", "redis_url": "redis://:s3cret@localhost/0"},
        {"database_url": "postgresql://me:s3cret@/tga?host=/run/postgresql", "redis_url": "unix:///run/redis.sock"},
        {"database_url": f"{REMOTE}?sslmode=verify-full", "redis_url": "rediss://:s3cret@cache.example.org/0"},
        {"database_url": REMOTE, "tls_ca_file": AUTHORITIES},
        {"database_url": f"{REMOTE}?sslmode=require&sslrootcert=/etc/ca.pem"},
        {"qdrant_url": "https://q.example.org:6333", "neo4j_url": "neo4j+s://g.example.org"},
        {"qdrant_url": "http://[::1]:6333", "neo4j_url": "bolt://127.0.0.1", "openai_base_url": "http://127.0.0.1/v1"},
        {"smtp_host": "mail.example.org"},
        {"smtp_host": "localhost", "smtp_security": "none"},
    ],
    ids=str,
)
def test_what_is_encrypted_or_stays_here_is_well(settings: dict[str, Any]) -> None:
    assert said(**settings).startswith("ok")


@pytest.mark.parametrize(
    "settings,told",
    [
        ({"database_url": REMOTE}, "DATABASE_URL: what is sent to db.example.org may be read"),
        ({"database_url": f"{REMOTE}?sslmode=disable", "tls_ca_file": AUTHORITIES}, "may be read"),
        (
            {"database_url": f"{REMOTE}?sslmode=require"},
            "DATABASE_URL: the certificate of db.example.org",
        ),
        ({"redis_url": "redis://:s3cret@cache/0"}, "REDIS_URL: what is sent to cache can be read"),
        (
            {"redis_url": "rediss://:s3cret@cache/0?ssl_cert_reqs=none"},
            "REDIS_URL: the certificate of cache",
        ),
        ({"redis_url": "rediss://:s3cret@cache/0?ssl_check_hostname=False"}, "REDIS_URL: the certificate of"),
        ({"qdrant_url": "http://me:s3cret@q.example.org:6333"}, "QDRANT_URL: what is sent to q.example.org"),
        ({"media_s3_endpoint": "http://s3.example.org"}, "MEDIA_S3_ENDPOINT"),
        ({"openai_base_url": "http://10.0.0.7:11434/v1"}, "OPENAI_BASE_URL"),
        ({"neo4j_url": "neo4j://g.example.org"}, "NEO4J_URL: what is sent"),
        ({"neo4j_url": "neo4j+ssc://g.example.org"}, "NEO4J_URL: the certificate of"),
        ({"smtp_host": "mail.example.org", "smtp_security": "none"}, "SMTP_SECURITY: what is sent to mail.example.org"),
    ],
    ids=str,
)
def test_what_can_be_read_or_forged_on_the_way_is_told(settings: dict[str, Any], told: str) -> None:
    words = said(**settings)
    assert words.startswith("warn")
    assert told in words
    assert "docs/howto/tls.md" in words
    assert "s3cret" not in words


def test_a_file_that_cannot_be_used_fails(tmp_path: Path) -> None:
    (finding,) = look_at_encryption(Settings(tls_ca_file=tmp_path / "nowhere.pem"))
    assert finding.level is Level.FAIL
    assert "nowhere.pem" in finding.what


@pytest.mark.parametrize(
    "url,checks_name",
    [
        (REMOTE, True),
        (f"{REMOTE}?sslmode=prefer", True),
        (f"{REMOTE}?sslmode=verify-full", True),
        (f"{REMOTE}?sslmode=require", False),
        (f"{REMOTE}?sslmode=verify-ca", False),
    ],
)
def test_with_an_authority_of_ours_postgres_is_verified(url: str, checks_name: bool) -> None:
    context = tls_of(parse_address(url), AUTHORITIES)
    assert context is not None
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert context.check_hostname is checks_name


@pytest.mark.parametrize(
    "url",
    [
        f"{REMOTE}?sslmode=disable",
        f"{REMOTE}?sslmode=verify-full&sslrootcert=/etc/other.pem",
        "postgresql://me:s3cret@localhost/tga",
        "postgresql://me:s3cret@[::1]/tga",
        "postgresql://me:s3cret@/tga?host=/run/postgresql",
    ],
)
def test_what_the_address_decides_is_left_to_it(url: str) -> None:
    assert tls_of(parse_address(url), AUTHORITIES) is None


def test_full_verification_needs_no_file_of_ours() -> None:
    assert tls_of(parse_address(f"{REMOTE}?sslmode=verify-full"), None) is not None
    assert tls_of(parse_address(REMOTE), None) is None
