"""Which folders hold the vectors of a tenant, and which of them answers searches: one small file, written at once."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path

from telegram_assistant.embedded.folder import explain_os_error
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.vectors import Model

FILE = "generations.json"


class Generations:
    """The generations of one tenant. What the file does not name is the rest of an unfinished step, and is deleted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current: Model | None = None
        self._mark = ""
        self._folders: dict[Model, str] = {}
        self._load()

    def __contains__(self, model: Model) -> bool:
        return model in self._folders

    def models(self) -> list[Model]:
        return list(self._folders)

    def where(self, model: Model) -> Path:
        return self.folder / self._folders[model]

    def new_folder(self) -> Path:
        """A name for a folder; it counts once `keep` has named it."""
        return self.folder / secrets.token_hex(8)

    def keep(self, model: Model, folder: Path) -> None:
        """This folder holds the generation from now on; the first one of all is current."""
        old = self._folders.get(model)
        self._folders[model] = folder.name
        self.current = self.current or model
        self._save()
        if old is not None:
            shutil.rmtree(self.folder / old, ignore_errors=True)

    def switch(self, model: Model) -> None:
        """The one that stays, and answers."""
        others = [name for other, name in self._folders.items() if other != model]
        self._folders = {model: self._folders[model]}
        self.current = model
        self._save()
        for name in others:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def mark(self) -> str | None:
        """As the file says it now; None: there is none."""
        try:
            return str(json.loads((self.folder / FILE).read_text(encoding="utf-8")).get("mark", ""))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            raise _unreadable(self.folder, exc) from exc

    def set_mark(self, mark: str) -> None:
        self._mark = mark
        self._save()

    def delete(self) -> None:
        """All of it, the file first: a half-deleted tenant is no tenant."""
        (self.folder / FILE).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.current, self._folders, self._mark = None, {}, ""

    def _load(self) -> None:
        if not self.folder.exists():
            return
        try:
            raw = (self.folder / FILE).read_text(encoding="utf-8") if (self.folder / FILE).exists() else "{}"
            listed = json.loads(raw)
            self._mark = str(listed.get("mark", ""))
            for one in listed.get("generations", ()):
                model = Model(one["model"], one["size"])
                self._folders[model] = one["folder"]
                if one["current"]:
                    self.current = model
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self.folder)) from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise _unreadable(self.folder, exc) from exc
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in self._folders.values():
                shutil.rmtree(path, ignore_errors=True)

    def _save(self) -> None:
        listed = [
            {"model": model.name, "size": model.size, "folder": name, "current": model == self.current}
            for model, name in self._folders.items()
        ]
        draft = self.folder / f"{FILE}.new"
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump({"mark": self._mark, "generations": listed}, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.folder / FILE)
        except OSError as exc:
            raise Retry(explain_os_error(exc, self.folder)) from exc


def _unreadable(folder: Path, exc: Exception) -> Fatal:
    return Fatal(f"{folder / FILE} cannot be read ({exc}): move {folder} away, then index the posts again")
