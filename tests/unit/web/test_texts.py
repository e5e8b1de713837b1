"""Both languages say everything, and templates ask only for what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from telegram_assistant.http import web
from telegram_assistant.i18n import LANGUAGES, load_texts

pytestmark = pytest.mark.unit

WEB = Path(web.__file__).parent
USED = re.compile(r"""\bt\(\s*["']([a-z_]+\.[a-z0-9_]+)["']\s*[,)]""")
FIELDS = re.compile(r"\{([a-z_]+)\}")


def test_every_text_is_there_in_both_languages_with_the_same_fields() -> None:
    found = load_texts().found
    for key, said in found.items():
        assert set(said) == set(LANGUAGES), key
        fields = []
        for language in LANGUAGES:
            value = said[language]
            if isinstance(value, list):
                assert len(value) == {"en": 2, "ru": 3}[language], key
            for form in [value] if isinstance(value, str) else value:
                assert form.strip(), key
                fields.append(set(FIELDS.findall(form)) - {"n"})
        assert all(one == fields[0] for one in fields), key


def test_templates_and_pages_ask_for_texts_that_exist() -> None:
    files = [*WEB.glob("templates/*.html"), *WEB.glob("pages/*.py"), WEB / "page.py"]
    used = {(key, file.name) for file in files for key in USED.findall(file.read_text("utf-8"))}
    assert used
    assert [one for one in used if one[0] not in load_texts().keys] == []


def test_templates_keep_the_policy() -> None:
    """No inline script, style or handler: the policy would block it, silently for whoever does not look."""
    for file in WEB.glob("templates/*.html"):
        found = file.read_text("utf-8")
        assert not re.search(
            r"\sstyle\s*=|\son[a-z]+\s*=|javascript:|<style|<script(?![^>]*\bsrc=)", found, re.IGNORECASE
        ), file
        assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", found), file


@pytest.mark.parametrize(
    "n, said",
    [
        (0, "0 минут"),
        (1, "1 минуту"),
        (2, "2 минуты"),
        (5, "5 минут"),
        (11, "11 минут"),
        (21, "21 минуту"),
        (112, "112 минут"),
        (124, "124 минуты"),
    ],
)
def test_russian_counts(n: int, said: str) -> None:
    assert load_texts()("ru", "base.minutes", n=n) == said
