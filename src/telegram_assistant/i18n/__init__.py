"""What pages say, in Russian and English: a TOML file per page, both languages side by side."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "ru")


class Texts:
    """Looks texts up by `page.key`; a number `n` chooses among plural forms."""

    def __init__(self, found: dict[str, dict[str, str | list[str]]]) -> None:
        self.found = found

    @property
    def keys(self) -> set[str]:
        return set(self.found)

    def __call__(self, language: str, key: str, **values: object) -> str:
        said = self.found[key][language]
        if isinstance(said, list):
            said = said[_form(language, int(str(values["n"])))]
        return said.format(**values) if values else said


def _form(language: str, n: int) -> int:
    n = abs(n)
    if language == "en":
        return 0 if n == 1 else 1
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if 2 <= n % 10 <= 4 and not 12 <= n % 100 <= 14 else 2


@cache
def load_texts() -> Texts:
    found: dict[str, dict[str, str | list[str]]] = {}
    for file in files(__package__).iterdir():
        if file.name.endswith(".toml"):
            for page, texts in tomllib.loads(file.read_text("utf-8")).items():
                found |= {f"{page}.{key}": value for key, value in texts.items()}
    return Texts(found)
