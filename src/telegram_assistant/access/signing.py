"""Addresses that open without a credential, for a while: signed with a key made from `TGA_SECRET_KEY`."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import DataFolder
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.sealed import SALT

LABEL = b"signed addresses"  # another key than that of the sessions, from the same root
LONGEST = 100  # a number and a signature


class Signer:
    """Signs what an address means: its parts, and until when it is good."""

    def __init__(self, key: str) -> None:
        if not key.strip():
            raise Fatal("TGA_SECRET_KEY is blank: set it to a long random text, or unset it to have one made")
        root = Scrypt(salt=SALT, length=32, n=2**14, r=8, p=1).derive(key.strip().encode())
        self._key = HKDFExpand(SHA256(), 32, LABEL).derive(root)

    def sign(self, parts: Sequence[str], *, expires: datetime) -> str:
        """Put it into the address beside its parts. Name the tenant among them."""
        until = int(expires.timestamp())
        return f"{until}.{self._signature(parts, until)}"

    def check(self, parts: Sequence[str], signed: str, *, now: datetime) -> bool:
        """Whether we signed exactly these parts, and it is still good."""
        until, _, signature = signed[: LONGEST + 1].partition(".")
        if not (until.isascii() and until.isdecimal() and len(until) < 15):
            return False
        ours = self._signature(parts, int(until))
        given = signature.encode("utf-8", "replace")
        return hmac.compare_digest(ours.encode(), given) and now.timestamp() < int(until)

    def _signature(self, parts: Sequence[str], until: int) -> str:
        # Each with its length: ("a", "bc") must not be ("ab", "c").
        encoded = [part.encode("utf-8", "surrogatepass") for part in (*parts, str(until))]
        content = b"".join(len(part).to_bytes(4) + part for part in encoded)
        return urlsafe_b64encode(hmac.digest(self._key, content, sha256)).decode().rstrip("=")


def open_signer(settings: Settings, folder: DataFolder) -> Signer:
    """With the configured key, or with the one of the data folder that seals the sessions too."""
    key = settings.tga_secret_key
    return Signer(key.get_secret_value() if key else folder.secret("session.key"))
