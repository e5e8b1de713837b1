"""Sessions encrypted at rest: a Telegram session is as good as the account (LESSONS 24)."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from telegram_assistant.errors import Fatal

VERSION = b"\x01"
KEY_ID_BYTES = 4
NONCE_BYTES = 12
HEADER_BYTES = len(VERSION) + KEY_ID_BYTES
# The same everywhere, because the key's text must always give the same key. Against the guessing of a typed password
# stands scrypt; the key that we make ourselves is random and needs neither.
SALT = b"telegram-assistant sessions"


class Sealer:
    """Encrypts texts with a key made from `TGA_SECRET_KEY`, or from the key file of the data folder.

    A sealed text is: version, key id, nonce, AES-256-GCM ciphertext. `owner` is authenticated with it, so that a
    sealed text copied to another row does not open there.
    """

    def __init__(self, key: str) -> None:
        if not key.strip():
            raise Fatal("TGA_SECRET_KEY is blank: set it to a long random text, or unset it to have one made")
        root = Scrypt(salt=SALT, length=32, n=2**14, r=8, p=1).derive(key.strip().encode())
        self._key_id = HKDFExpand(SHA256(), KEY_ID_BYTES, b"key id").derive(root)
        self._cipher = AESGCM(HKDFExpand(SHA256(), 32, b"sessions").derive(root))

    def seal(self, text: str, *, owner: str) -> bytes:
        header = VERSION + self._key_id
        nonce = secrets.token_bytes(NONCE_BYTES)
        return header + nonce + self._cipher.encrypt(nonce, text.encode(), header + owner.encode())

    def unseal(self, sealed: bytes, *, owner: str) -> str:
        """The text again. Raises Fatal that tells what to do when the key is another one."""
        header, nonce = sealed[:HEADER_BYTES], sealed[HEADER_BYTES : HEADER_BYTES + NONCE_BYTES]
        if header[:1] != VERSION or len(nonce) < NONCE_BYTES:
            raise Fatal(
                "A stored Telegram session was written by a newer version or is damaged: update Telegram Assistant, or"
                " log in again with `tga login`"
            )
        if header[1:] != self._key_id:
            raise Fatal(
                "A stored Telegram session was encrypted with another key: set TGA_SECRET_KEY to what it was then (if"
                " it was unset, bring back keys/session.key in the data folder), or log in again with `tga login`"
            )
        try:
            return self._cipher.decrypt(nonce, sealed[HEADER_BYTES + NONCE_BYTES :], header + owner.encode()).decode()
        except InvalidTag as exc:
            raise Fatal("A stored Telegram session is damaged: log in again with `tga login`") from exc
