"""Auth keys and who is signed in with them, kept in a file where one is given."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from telethon.crypto import AuthKey

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(slots=True)
class Key:
    """One auth key: a device, signed in or not."""

    auth: Any
    user_id: int | None = None
    seeded: bool = False  # made by `Simulator.session`, not by a handshake
    duplicated: bool = False  # used from two addresses at once: it opens nothing any more


class KeyRing:
    """All auth keys by their id. Every change is written at once, so that a restart knows old sessions."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._keys: dict[int, Key] = {}
        if path is not None and path.exists():
            self._load(path)

    def get(self, key_id: int) -> Key | None:
        return self._keys.get(key_id)

    def add(self, auth: Any) -> Key:
        key = Key(auth)
        self._keys[auth.key_id] = key
        self._save()
        return key

    def seeded(self, user_id: int) -> Key:
        """The ready-made key of a user: the same one until it is logged out or was used from two addresses."""
        for key in self._keys.values():
            if key.seeded and key.user_id == user_id and not key.duplicated:
                return key
        key = Key(AuthKey(os.urandom(256)), user_id, seeded=True)
        self._keys[key.auth.key_id] = key
        self._save()
        return key

    def sign(self, key_id: int, user_id: int | None) -> None:
        """Sign a user in with a key, or out with None."""
        self._keys[key_id].user_id = user_id
        self._save()

    def revoke(self, key: Key) -> None:
        """It was used from two addresses at once."""
        key.duplicated = True
        self._save()

    def forget(self, key_id: int) -> None:
        if self._keys.pop(key_id, None) is not None:
            self._save()

    def _load(self, path: Path) -> None:
        try:
            rows = json.loads(path.read_text())["keys"]
            for row in rows:
                auth = AuthKey(base64.b64decode(row["key"]))
                key = Key(auth, row["user"], row["seeded"], row.get("duplicated", False))
                self._keys[key.auth.key_id] = key
        except (KeyError, TypeError, ValueError) as exc:
            raise ValueError(f"{path} is not a simulator's state file: {exc!r}. Remove it to start anew") from exc

    def _save(self) -> None:
        if self._path is None:
            return
        rows = [
            {
                "key": base64.b64encode(key.auth.key).decode(),
                "user": key.user_id,
                "seeded": key.seeded,
                "duplicated": key.duplicated,
            }
            for key in self._keys.values()
        ]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(self._path.name + ".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"keys": rows}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
