"""Names: what one signs in with, and what people, keys and tenants are called."""

from __future__ import annotations

import re

from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Reject

LONGEST = 100
BAD_LOGIN = "A name to sign in with has 3 to 100 letters and digits, and . _ + - @ between them"
BAD_EMAIL = "This is no e-mail address"
_LETTER = r"a-z0-9\u0430-\u044f\u0451"  # English and Russian
_LOGIN = re.compile(f"[{_LETTER}][{_LETTER}._+@-]{{1,98}}[{_LETTER}]")
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,61}[a-z0-9]|[a-z0-9]", re.ASCII)
_EMAIL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,190}\.[^\s@]{2,60}")


def parse_login(text: str) -> str:
    """In lower case; letters, digits and . _ + - @, so that an e-mail address will do."""
    login = clean_text(text).strip().lower()
    if not _LOGIN.fullmatch(login):
        raise Reject(BAD_LOGIN)
    return login


def parse_name(text: str, *, of: str = "A name") -> str:
    name = " ".join(clean_text(text).split())
    if not 0 < len(name) <= LONGEST or not name.isprintable():
        raise Reject(f"{of} has 1 to {LONGEST} characters")
    return name


def parse_email(text: str | None) -> str | None:
    email = clean_text(text or "").strip().lower()
    if not email:
        return None
    if not _EMAIL.fullmatch(email):
        raise Reject(BAD_EMAIL)
    return email


def parse_tenant(text: str) -> str:
    """As it stands in commands: lower-case letters, digits and hyphens."""
    name = text.strip()
    if not _TENANT.fullmatch(name):
        raise Reject("A tenant's name has lower-case letters, digits and hyphens, 63 at most: newsroom, team-a")
    return name
