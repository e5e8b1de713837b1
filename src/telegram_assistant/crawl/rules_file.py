"""The rules of crawling from their files: ours, and one of the user's that changes it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from telegram_assistant.domain.crawl_rules import BadRules, CrawlRules, parse_rules
from telegram_assistant.errors import Fatal

DEFAULT_RULES = "default_rules.toml"


def load_rules(path: Path | None = None) -> CrawlRules:
    """The shipped rules, changed by the file at `path`. Raises Fatal with the line to correct."""
    shipped = parse_rules(files("telegram_assistant.crawl").joinpath(DEFAULT_RULES).read_text("utf-8"))
    if path is None:
        return shipped
    try:
        return parse_rules(path.read_text("utf-8"), shipped)
    except OSError as exc:
        raise Fatal(f"Cannot read CRAWL_RULES_FILE {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise Fatal(f"CRAWL_RULES_FILE {path} is not UTF-8 text") from exc
    except BadRules as exc:
        raise Fatal(f"CRAWL_RULES_FILE {path}: {exc}") from exc
