"""The policy of vision from its files: ours, and one of the user's that changes it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from telegram_assistant.domain.policy import Policy
from telegram_assistant.domain.policy_text import BadPolicy, parse_policy
from telegram_assistant.errors import Fatal

SHIPPED = "vision_policy.toml"


def load_policy(path: Path | None = None) -> Policy:
    """The shipped policy, changed by the file at `path`. Raises Fatal with the line to correct."""
    shipped = parse_policy(files("telegram_assistant.ai").joinpath(SHIPPED).read_text("utf-8"))
    if path is None:
        return shipped
    try:
        return parse_policy(path.read_text("utf-8"), shipped)
    except OSError as exc:
        raise Fatal(f"Cannot read VISION_POLICY_FILE {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise Fatal(f"VISION_POLICY_FILE {path} is not UTF-8 text") from exc
    except BadPolicy as exc:
        raise Fatal(f"VISION_POLICY_FILE {path}: {exc}") from exc
