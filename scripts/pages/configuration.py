"""The reference of all settings, from the class that reads them."""

from __future__ import annotations

import re
from textwrap import wrap
from types import UnionType
from typing import Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from telegram_assistant.config import Settings

# The setting that a section begins with; the others follow in the order of the class.
SECTIONS = {
    "tga_secrets_dir": "Where things are",
    "telegram_api_id": "Telegram",
    "tga_demo_posts": "The demo",
    "parser_scheduler_interval_sec": "Scheduler and visits",
    "media_url": "Files of posts",
    "storage_quota_mb": "Storage and alerts",
    "feature_adaptive_thresholds_enabled": "Silence and audits",
    "tagging_min_chars": "The pipeline",
    "ai_tag_provider": "Models",
    "vision_policy_file": "Pictures",
    "crawl_rules_file": "Pages behind links",
    "qdrant_url": "Vectors and graph",
    "telegram_bot_token": "The bot",
    "api_host": "API and pages",
    "interests_sync_minutes": "Jobs and mail",
    "ingest_health_host": "Health and logs",
    "tga_api_url": "The MCP server",
}
HEAD = """\
# Configuration

<!-- Written by scripts/docs from src/telegram_assistant/config.py: do not edit it here. -->

Every setting is an environment variable. None is needed: without any you get a demo on this machine. A setting is
looked for in this order, and the first place that has it counts:

1. the environment of the process;
2. the file `.env` in the folder where `tga` is started;
3. a file named like the setting in small letters, for example `database_url`, in the folder `TGA_SECRETS_DIR`: that is
   where Docker and Kubernetes put secrets.

An empty value is the default. A value that cannot be right ends the start with one line that names the variable. Every
role reads the same settings and uses what it needs. Changes count after a restart. `env.example` in the repository is
this page as a file to copy.
"""
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def page() -> str:
    """The whole page."""
    lines = [HEAD.rstrip("\n")]
    for name, field in Settings.model_fields.items():
        if name in SECTIONS:
            lines += ["", f"## {SECTIONS[name]}", "", "| Variable | Default | What it means |", "| --- | --- | --- |"]
        lines.append(f"| `{name.upper()}` | {default(field)} | {meaning(field)} |")
    missing = SECTIONS.keys() - Settings.model_fields.keys()
    if missing:
        raise KeyError(f"sections begin with settings that do not exist: {', '.join(sorted(missing))}")
    return "\n".join(lines) + "\n"


def default(field: FieldInfo) -> str:
    value = field.default
    if value in (None, PydanticUndefined, ""):
        return "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def meaning(field: FieldInfo) -> str:
    """The description, and what the type says besides."""
    said = [readable(field.description or ""), allowed(field), "**Secret.**" if is_secret(field) else ""]
    return " ".join(part for part in said if part)


def readable(text: str) -> str:
    """Names of settings as code, and no sign that Markdown would take for its own; what is code already stays."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        plain = re.sub(r"([|<*])", r"\\\1", parts[place])
        plain = re.sub(r"\bdocs/(\S+)\.md\b", r"[\1](../\1.md)", plain)
        parts[place] = re.sub(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\b_[A-Z0-9]+\b", r"`\g<0>`", plain)
    return "`".join(parts)


def allowed(field: FieldInfo) -> str:
    choices = [choice for kind in kinds(field) if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        return f"One of {', '.join(f'`{choice}`' for choice in choices)}."
    if bool in kinds(field):
        return "`true` or `false`."
    limits = {sign: getattr(rule, sign) for rule in field.metadata for sign in BOUNDS if hasattr(rule, sign)}
    if limits.get("ge") == 0:
        del limits["ge"]  # no reader expects less than nothing
    bounds = [f"{BOUNDS[sign]} {limit}" for sign, limit in limits.items()]
    return f"{', '.join(bounds).capitalize()}." if bounds else ""


def is_secret(field: FieldInfo) -> bool:
    return SecretStr in kinds(field)


def kinds(field: FieldInfo) -> tuple[object, ...]:
    """The type, or the types of a union."""
    return get_args(field.annotation) if get_origin(field.annotation) is UnionType else (field.annotation,)


def env_example() -> str:
    """The text of `env.example`: every variable with what it means and its default."""
    lines = ["# Every setting, with its default. Copy to .env and change what you need; an empty value is the default."]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, PydanticUndefined) else field.default
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        lines += ["", *(f"# {line}" for line in wrap(field.description or "", 118)), f"{name.upper()}={shown}"]
    return "\n".join(lines) + "\n"
