"""The file of topics: ours is sound, another's mistakes are told."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

from pathlib import Path

import pytest

from telegram_assistant.errors import Fatal
from telegram_assistant.language.taxonomy import load_taxonomy

pytestmark = pytest.mark.unit


def test_our_topics_have_names_examples_and_keywords_in_both_languages() -> None:
    taxonomy = load_taxonomy()
    assert len(taxonomy.topics) >= 20
    for topic in taxonomy.topics:
        assert topic.key.isidentifier(), topic.key
        assert topic.ru != topic.en
        assert any(text.isascii() for text in topic.about), topic.key
        assert any(not text.isascii() for text in topic.about), topic.key
        assert len(topic.keywords) >= 20, topic.key
    names = [name for topic in taxonomy.topics for name in (topic.ru, topic.en)]
    assert len(set(names)) == len(names)


def test_only_known_topics_pass_by_key_or_name_and_three_at_most() -> None:
    taxonomy = load_taxonomy()
    assert taxonomy.known(["Политика", "politics", " Weather and  disasters", "hacked", "sport", "ai"]) == (
        "politics",
        "weather",
        "sport",
    )


def test_another_file_has_another_version(tmp_path: Path) -> None:
    path = tmp_path / "topics.toml"
    path.write_text('[one]\nru = "Раз"\nen = "One"\nabout = ["Один"]\n', encoding="utf-8")
    taxonomy = load_taxonomy(path)
    assert [topic.key for topic in taxonomy.topics] == ["one"]
    assert taxonomy.version != load_taxonomy().version
    assert taxonomy.names() == {"one": ("Раз", "One")}


@pytest.mark.parametrize(
    "content,told",
    [
        ("", "no topic"),
        ("[a", "cannot be used"),
        ('[a]\nru = "А"\n', "cannot be used"),
        ('[a]\nru = "А"\nen = "A"\nabout = []\ncolour = 1\n', "colour"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(Fatal, match=told):
        load_taxonomy(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match=r"nowhere\.toml"):
        load_taxonomy(tmp_path / "nowhere.toml")
