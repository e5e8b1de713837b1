"""Writes every file that is made from code; a test compares them."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.pages.benchmarks import contents as benchmarks
from scripts.pages.configuration import page
from scripts.pages.data_flow import picture
from telegram_assistant.config import env_example

ROOT = Path(__file__).parents[2]


def contents() -> dict[str, str]:
    """By path from the root of the repository."""
    return {
        "env.example": env_example(),
        "docs/reference/configuration.md": page(),
        "docs/images/data-flow.svg": picture(),
        **benchmarks(ROOT),
    }


def main() -> None:
    for name, content in contents().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
