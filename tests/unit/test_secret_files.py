"""Settings as files, where containers get their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from telegram_assistant.config import Settings, load_settings
from telegram_assistant.errors import Fatal

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("TGA_SECRETS_DIR", str(tmp_path / "secrets"))


def put(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "secrets").mkdir(exist_ok=True)
    (tmp_path / "secrets" / name).write_text(value, encoding="utf-8")


def test_a_file_is_a_setting(tmp_path: Path) -> None:
    put(tmp_path, "database_url", "postgresql://me:s3cret@host/tga\n")
    put(tmp_path, "of_somebody_else", "no setting of ours")
    found = load_settings().database_url
    assert found is not None
    assert found.get_secret_value() == "postgresql://me:s3cret@host/tga"
    assert "s3cret" not in repr(load_settings())


def test_the_environment_counts_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "media_url", "s3://of-the-file")
    monkeypatch.setenv("MEDIA_URL", "s3://of-the-environment")
    assert load_settings().media_url == "s3://of-the-environment"
    monkeypatch.setenv("MEDIA_URL", "")
    assert load_settings().media_url == "s3://of-the-file"


def test_the_folder_may_be_named_in_the_file_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "tga_secret_key", "long and random")
    monkeypatch.delenv("TGA_SECRETS_DIR")
    (tmp_path / ".env").write_text(f"TGA_SECRETS_DIR={tmp_path / 'secrets'}\n", encoding="utf-8")
    assert load_settings().tga_secret_key is not None


def test_an_empty_file_is_no_setting(tmp_path: Path) -> None:
    """`make-secrets` leaves them for who fills them in later."""
    put(tmp_path, "telegram_bot_token", "\n")
    assert load_settings().telegram_bot_token is None


def test_no_folder_is_no_trouble() -> None:
    assert load_settings().database_url is None


def test_a_wrong_value_is_explained_without_the_secret(tmp_path: Path) -> None:
    put(tmp_path, "telegram_api_id", "s3cret")
    with pytest.raises(Fatal, match="TELEGRAM_API_ID"):
        load_settings()
