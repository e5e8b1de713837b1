"""Where an export lies: folders and zips of strangers, whose paths and sizes may be traps."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from telegram_assistant.source.export_files import BadExport, Folder, Zip, holds_messages, open_files
from tests.exports import chat, message, write_json

pytestmark = pytest.mark.unit


def zipped(path: Path, fill: Callable[[zipfile.ZipFile], None]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("export/result.json", '{"messages": []}')
        fill(made)
    return path


def test_names_that_telegram_desktop_gives() -> None:
    good = ("result.json", "messages.html", "messages2.html", "messages143.html")
    assert all(holds_messages(name) for name in good)
    assert not any(holds_messages(name) for name in ("messages_x.html", "my result.json", "style.css", "messages.htm"))


def test_a_zip_is_read_where_it_lies(tmp_path: Path) -> None:
    files = open_files([zipped(tmp_path / "a.zip", lambda made: made.writestr("export/photos/1.jpg", b"picture"))])
    assert files.names == ["export/result.json"]
    assert files.size("export/photos/1.jpg") == 7
    assert files.size("export/photos/2.jpg") is None
    with files.reading("export/photos/1.jpg") as file:
        assert file.read() == b"picture"
    files.close()


def _linked(made: zipfile.ZipFile) -> None:
    link = zipfile.ZipInfo("export/photos")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    made.writestr(link, "/etc")


@pytest.mark.parametrize(
    "fill,why",
    [
        (lambda made: made.writestr("../../evil.txt", "x"), "leaves the folder"),
        (lambda made: made.writestr("/etc/evil.txt", "x"), "leaves the folder"),
        (lambda made: made.writestr("a\\..\\evil.txt", "x"), "leaves the folder"),
        (_linked, "a link"),
        (lambda made: made.writestr("bomb.json", b"0" * (64 << 20)), "not read"),
    ],
)
def test_traps_in_a_zip(tmp_path: Path, fill: Callable[[zipfile.ZipFile], None], why: str) -> None:
    with pytest.raises(BadExport, match=why):
        open_files([zipped(tmp_path / "a.zip", fill)])


def test_a_zip_with_a_password_or_damage(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", lambda made: made.writestr("export/photos/1.jpg", b"picture" * 99))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadExport, match="damaged"):
        open_files([path])
    locked = bytearray(whole)
    for sign, place in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = locked.find(sign)
        while at >= 0:
            locked[at + place] |= 1
            at = locked.find(sign, at + 1)
    path.write_bytes(bytes(locked))
    with pytest.raises(BadExport, match="password"):
        open_files([path])
    path.write_bytes(b"no zip at all")
    with pytest.raises(BadExport, match="no zip"):
        open_files([path])


def test_bytes_that_changed_on_the_way_are_noticed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as made:
        made.writestr("result.json", '{"messages": []}')
    damaged = (tmp_path / "a.zip").read_bytes().replace(b"messages", b"massages")
    (tmp_path / "a.zip").write_bytes(damaged)
    files = open_files([tmp_path / "a.zip"])
    with pytest.raises(BadExport, match="damaged"), files.reading("result.json") as file:
        file.read()


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "export"
    write_json(folder, chat([message(1)]))
    (folder / "photos").symlink_to(tmp_path)
    (folder / "direct.txt").symlink_to(tmp_path / "secret.txt")
    files = Folder(folder, shown="export")
    assert files.names == ["result.json"]
    for name in ("photos/secret.txt", "direct.txt", "../secret.txt", str(tmp_path / "secret.txt"), "photos", "\0"):
        assert files.size(name) is None
        with pytest.raises(BadExport, match="leads out"), files.reading(name):
            pytest.fail("it was opened")


def test_folders_and_files_without_an_export(tmp_path: Path) -> None:
    for paths, why in (
        ([tmp_path], "holds no export"),
        ([tmp_path / "none"], "does not exist"),
    ):
        with pytest.raises(BadExport, match=why):
            open_files(paths)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(BadExport, match="neither a folder"):
        open_files([tmp_path / "a.txt"])
    one, other = write_json(tmp_path / "a", chat([])), write_json(tmp_path / "b", chat([]))
    with pytest.raises(BadExport, match="one folder"):
        open_files([one, other])


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telegram_assistant.source.export_files.MOST_FILES", 3)

    def fill(made: zipfile.ZipFile) -> None:
        for number in range(5):
            made.writestr(f"{number}", "")

    path = zipped(tmp_path / "a.zip", fill)
    with pytest.raises(BadExport, match="more than any export"):
        Zip(path, shown="a.zip")
