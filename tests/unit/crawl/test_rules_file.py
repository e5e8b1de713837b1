"""The rules that are shipped, and files of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from telegram_assistant.crawl.rules import Interests, Rule, Subject, decide, load_rules
from telegram_assistant.errors import Fatal

pytestmark = pytest.mark.unit

POST = Subject(text="")


def test_the_shipped_rules_read_articles_and_at_most_three_of_them() -> None:
    rules = load_rules()
    assert (rules.most_links, rules.least_text, rules.interests) == (3, 0, Interests.ALSO)
    links = [
        "https://habr.com/ru/articles/1/",
        "https://www.youtube.com/watch?v=1",
        "https://clck.ru/3abc",
        "https://a.example/file.pdf",
        "https://telegra.ph/Title-01-02",
        "https://meduza.io/feature/2026/01/05/x",
    ]
    found = [decision.rule for decision in decide(links, POST, rules)]
    assert found == [Rule.ARTICLE, Rule.SOCIAL, Rule.ARTICLE, Rule.FILE, Rule.ARTICLE, Rule.MOST_LINKS]


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("[links]\nmost_links = 1\n[domains]\ndeny = ['habr.com']\n", encoding="utf-8")
    rules, shipped = load_rules(file), load_rules()
    assert (rules.most_links, rules.deny) == (1, frozenset({"habr.com"}))
    assert (rules.social, rules.skip_extensions) == (shipped.social, shipped.skip_extensions)


def test_a_bad_file_is_named_with_its_mistake(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    with pytest.raises(Fatal, match=r"Cannot read CRAWL_RULES_FILE .*rules\.toml: No such file"):
        load_rules(file)
    file.write_text("[links]\nmost_links = 'many'", encoding="utf-8")
    with pytest.raises(Fatal, match=r"CRAWL_RULES_FILE .*rules\.toml: \[links\] most_links must be a number"):
        load_rules(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Fatal, match="is not UTF-8"):
        load_rules(file)
