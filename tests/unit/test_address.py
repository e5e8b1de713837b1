"""DATABASE_URL in the forms that people have."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.database import parse_address

pytestmark = pytest.mark.unit


def options(url: str) -> dict[str, str]:
    """What asyncpg is told within the address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(parse_address(url).dsn).query).items()}


@pytest.mark.parametrize(
    "scheme", ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2", "POSTGRES"]
)
def test_every_scheme_becomes_the_one_that_asyncpg_knows(scheme: str) -> None:
    address = parse_address(f"{scheme}://user:password@host:5433/name")
    assert address.dsn == "postgresql://user:password@host:5433/name"
    assert address.arguments == {}
    assert address.dropped == ()


@pytest.mark.parametrize(
    "url",
    ["mysql://u:p@h/d", "https://h/d", "postgresql+pg8000://u:p@h/d", "sqlite:///x.db", "host/name", "nonsense", ""],
)
def test_another_scheme_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(Fatal, match="must look like postgresql://user:password@host:5432/name") as caught:
        parse_address(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@host:port/name",
        "postgresql://user:s3cret@host:99999/name",
        "postgresql://user:s3c/ret@host:5432/name",  # what stands before the slash looks like a port
        "postgresql://user:s3c#ret@host:5432/name",
        "postgresql://user:s3c?ret@host:5432/name",
        "postgresql://user:s3c[ret@host:5432/name",
        "postgresql://user:123/s3cret@host:5432/name",
        "postgresql://user:123#s3cret@host:5432/name",
        "postgresql://user:123?s3cret@host:5432/name",
    ],
)
def test_an_address_that_cannot_be_read_tells_no_secret(url: str) -> None:
    with pytest.raises(Fatal, match="DATABASE_URL") as caught:
        parse_address(url)
    assert "s3c" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_that_breaks_the_address_is_explained() -> None:
    with pytest.raises(Fatal, match="percent-encoded"):
        parse_address("postgresql://user:pass/word@host:5432/name")


@given(st.text(min_size=1, max_size=30))
def test_any_password_survives_quoted(password: str) -> None:
    try:
        quoted = quote(password, safe="")
    except UnicodeEncodeError:  # lone surrogates are no text
        return
    address = parse_address(f"postgres://user:{quoted}@host/name?application_name=x")
    assert urlsplit(address.dsn).password == quoted
    assert address.shown == "postgresql://user@host/name"


@pytest.mark.parametrize("password", ["p@ss", "p:ss", "p%40ss", "пароль", "p+s=s&s", "p ss"])
def test_a_password_that_needs_no_quotes_survives_as_it_is(password: str) -> None:
    address = parse_address(f"postgresql://user:{password}@host:5432/name")
    assert urlsplit(address.dsn).password == password
    assert urlsplit(address.dsn).hostname == "host"
    assert address.shown == "postgresql://user@host:5432/name"


@pytest.mark.parametrize("mode", ["disable", "prefer", "require", "verify-ca", "verify-full"])
def test_sslmode_is_kept(mode: str) -> None:
    assert options(f"postgres://u:p@h/d?sslmode={mode}&sslrootcert=/etc/ca.pem") == {
        "sslmode": mode,
        "sslrootcert": "/etc/ca.pem",
    }


@pytest.mark.parametrize("written,meant", [("true", "require"), ("false", "disable"), ("require", "require")])
def test_ssl_as_sqlalchemy_writes_it(written: str, meant: str) -> None:
    assert options(f"postgresql+asyncpg://u:p@h/d?ssl={written}") == {"sslmode": meant}


def test_timeouts_become_arguments() -> None:
    address = parse_address("postgresql://u:p@h/d?connect_timeout=7&command_timeout=2.5")
    assert address.arguments == {"timeout": 7.0, "command_timeout": 2.5}
    assert urlsplit(address.dsn).query == ""


def test_no_connect_timeout_in_libpq_is_a_minute_here() -> None:
    assert parse_address("postgresql://u:p@h/d?connect_timeout=0").arguments == {"timeout": 60.0}


def test_a_timeout_that_is_no_number_is_refused() -> None:
    with pytest.raises(Fatal, match="connect_timeout=soon is not a number"):
        parse_address("postgresql://u:p@h/d?connect_timeout=soon")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h:6432/d?pgbouncer=true",
        "postgresql://u:p@h:6432/d?pgbouncer=1",
        "postgresql://postgres.ref:p@aws-0-eu-central-1.pooler.supabase.com:6543/postgres",
    ],
)
def test_behind_a_pooler_no_statement_is_kept(url: str) -> None:
    address = parse_address(url)
    assert address.arguments == {"statement_cache_size": 0}
    assert "pgbouncer" not in address.dsn


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h:6432/d?pgbouncer=false",
        "postgresql://postgres.ref:p@aws-0-eu-central-1.pooler.supabase.com:5432/postgres",  # Supabase's session mode
        "postgresql://postgres:p@db.ref.supabase.co:5432/postgres",
    ],
)
def test_without_a_pooler_statements_are_kept(url: str) -> None:
    assert parse_address(url).arguments == {}


def test_settings_of_the_server_are_passed_on() -> None:
    url = "postgresql://u:p@h/d?application_name=my%20app&options=-c%20work_mem%3D8MB&schema=tga&app.thing=x"
    assert options(url) == {
        "application_name": "my app",
        "options": "-c work_mem=8MB",
        "search_path": "tga",
        "app.thing": "x",
    }


def test_what_asyncpg_does_not_know_is_dropped_and_named() -> None:
    address = parse_address(
        "postgres://u:p@h/d?channel_binding=require&keepalives=1&connection_limit=5&application_name=a"
    )
    assert address.dropped == ("channel_binding", "keepalives", "connection_limit")
    assert urlsplit(address.dsn).query == "application_name=a"


def test_a_password_in_the_options_does_not_show() -> None:
    address = parse_address("postgresql://host/name?user=me&password=s3cret")
    assert "s3cret" in address.dsn
    assert address.shown == "postgresql://host/name"


def test_spaces_around_are_forgiven() -> None:
    assert parse_address("  postgres://u:p@h/d\n").dsn == "postgresql://u:p@h/d"
