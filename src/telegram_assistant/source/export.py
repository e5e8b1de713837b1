"""An export of Telegram Desktop as a whole: which chats are in it, and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from telegram_assistant.source.export_files import BadExport, ExportFiles, open_files
from telegram_assistant.source.export_html import HtmlExport
from telegram_assistant.source.export_json import JsonExport
from telegram_assistant.source.export_posts import Chat, Reader


@dataclass(frozen=True, slots=True)
class Found:
    """A chat, and who reads it."""

    chat: Chat
    reader: Reader


class Export:
    """Opened files; nothing of them is believed before `survey` went through all."""

    def __init__(self, files: ExportFiles, *, latest: datetime) -> None:
        self.files = files
        self._readers = _readers(files, latest)

    @classmethod
    def open(cls, paths: Sequence[Path], *, latest: datetime) -> Self:
        """`latest`: a message that is dated later cannot be. Raises BadExport."""
        return cls(open_files(paths), latest=latest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.files.close()

    def survey(self, zone: tzinfo | None) -> list[Found]:
        """Every chat with messages. Raises BadExport where a part is damaged, or nothing is in it."""
        found = [Found(chat, reader) for reader in self._readers for chat in reader.survey(zone)]
        filled = [one for one in found if one.chat.messages]
        if not filled and any(one.chat.unusual for one in found):
            raise BadExport(f"{self.files.shown}: none of its messages can be understood: look for a newer version")
        if not filled:
            raise BadExport(f"{self.files.shown}: the export is empty: no message is in it")
        return filled

    def size_of(self, chat: Chat) -> int:
        return sum(self.files.size(name) or 0 for name in chat.files)


def _readers(files: ExportFiles, latest: datetime) -> list[Reader]:
    """JSON tells more: where both are, HTML is the same once more."""
    documents = [name for name in files.names if name.lower().endswith(".json")]
    if documents:
        return [JsonExport(files, name, latest=latest) for name in documents]
    pages: dict[str, list[str]] = {}
    for name in files.names:
        pages.setdefault(str(PurePosixPath(name).parent), []).append(name)
    return [HtmlExport(files, names, latest=latest) for names in pages.values()]
