"""`result.json` in all its forms, whole and damaged."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from telegram_assistant.domain.post import MediaKind, Post, ReplyTo
from telegram_assistant.domain.text import EntityKind
from telegram_assistant.source import export_stream
from telegram_assistant.source.export import Export
from telegram_assistant.source.export_files import BadExport
from telegram_assistant.source.export_posts import PRIVATE_FROM, Chat, NoZone
from telegram_assistant.source.export_stream import Stream
from tests.exports import CHANNEL, EAST, START, at, chat, edited, message, old_account, write_json

pytestmark = pytest.mark.unit

LATEST = START + timedelta(days=1000)


def read(path: Path, zone: Any = None) -> tuple[Chat, list[Post]]:
    [(found, posts)] = read_all(path, zone)
    return found, posts


def read_all(path: Path, zone: Any = None) -> list[tuple[Chat, list[Post]]]:
    with Export.open([path], latest=LATEST) as export:
        return [
            (one.chat, [post for batch in one.reader.batches(one.chat, CHANNEL, zone, 500) for post in batch.posts])
            for one in export.survey(zone)
        ]


def test_a_channel_of_today(tmp_path: Path) -> None:
    parts = [
        {"type": "plain", "text": "Новость 🚀 "},
        {"type": "text_link", "text": "здесь", "href": "https://example.org/a"},
        {"type": "plain", "text": "\n"},
        {"type": "hashtag", "text": "#news"},
        {"type": "link", "text": "example.org/b"},
    ]
    found, posts = read(write_json(tmp_path, chat([message(7, parts, reply_to_message_id=3, author="Anna")])))
    assert (found.id, found.title, found.kind, found.messages) == (CHANNEL, "News", "public_channel", 1)
    [post] = posts
    assert post.text == "Новость 🚀 здесь\n#newsexample.org/b"
    assert post.posted_at == at(7)
    assert [(entity.kind, entity.offset, entity.length) for entity in post.entities] == [
        (EntityKind.TEXT_URL, 11, 5),  # as Telegram counts: the rocket takes two
        (EntityKind.HASHTAG, 17, 5),
        (EntityKind.URL, 22, 13),
    ]
    assert post.urls == ("https://example.org/a", "http://example.org/b")
    assert (post.author, post.reply_to) == ("Anna", ReplyTo(message_id=3))
    assert post.exported_at == at(7)


def test_files_polls_reactions_and_service(tmp_path: Path) -> None:
    told = [
        message(1, "", photo="photos/1.jpg", width=10, height=20, photo_file_size=5),
        message(
            2, "", file="(File not included. Change data exporting settings to download.)", media_type="video_file"
        ),
        message(3, "", file="files/a.pdf", file_name="a.pdf", mime_type="application/pdf"),
        message(4, "", poll={"question": "Q?", "closed": False, "total_voters": 3, "answers": [{"text": "A"}]}),
        message(5, reactions=[{"type": "emoji", "count": 2, "emoji": "❤"}, {"type": "paid", "count": 1}]),
        message(6, "", type="service", action="pin_message", message_id=3, actor="News"),
        message(7, "", location_information={"latitude": 1, "longitude": 2}, place_name="Cafe"),
    ]
    for name in ("photos/1.jpg", "files/a.pdf"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x")
    _, posts = read(write_json(tmp_path, chat(told)))
    kinds = [[media.kind for media in post.media] for post in posts]
    assert kinds == [[MediaKind.PHOTO], [MediaKind.VIDEO], [MediaKind.DOCUMENT], [], [], [], [MediaKind.OTHER]]
    assert [post.media[0].reference for post in posts[:3]] == ["photos/1.jpg", None, "files/a.pdf"]
    assert posts[3].poll is not None
    assert (posts[3].poll.question, posts[3].poll.answers) == ("Q?", ("A",))
    assert posts[4].counters.reactions == (("paid", 1), ("❤", 2))
    assert posts[5].service is not None
    assert (posts[5].service.action, posts[5].service.detail) == ("pin", "3")


def test_before_2021_times_have_no_offset_and_ids_have_a_mark(tmp_path: Path) -> None:
    """The same posts as of today's form, once the zone is known."""
    told = [message(1), edited(2, "better", at(99)), message(3, [{"type": "bold", "text": "x"}])]
    path = write_json(tmp_path, old_account(told))
    with pytest.raises(NoZone, match="--zone"):
        read(path)
    found, posts = read(path, EAST)
    assert found.id == CHANNEL
    assert found.without_offset
    _, today = read(write_json(tmp_path / "today", chat(told)))
    assert posts == today
    assert [post.edited_at for post in posts] == [None, at(99), None]


def test_a_whole_account_holds_many_chats(tmp_path: Path) -> None:
    person = {**chat([message(1, "hello", from_id="user5")]), "type": "personal_chat", "id": 5, "name": "Bob"}
    group = {**chat([message(1)]), "type": "private_supergroup", "id": 77, "name": "Friends"}
    content = {
        "about": "",
        "contacts": {"about": "", "list": [{"first_name": "}]{", "phone_number": "1"}]},
        "chats": {"about": "", "list": [person, chat([message(1), message(2)]), chat([])]},
        "left_chats": {"about": "", "list": [group]},
    }
    found = read_all(write_json(tmp_path, content))
    assert [(one.title, one.id, len(posts)) for one, posts in found] == [
        ("Bob", PRIVATE_FROM + 5, 1),  # never the id of a channel
        ("News", CHANNEL, 2),
        ("Friends", 77, 1),
    ]
    assert [one.is_channel for one, _ in found] == [False, True, False]


def test_keys_in_another_order_and_control_characters(tmp_path: Path) -> None:
    """Telegram Desktop writes \\x1F, which is no JSON; other programs sort keys."""
    content = json.dumps(chat([message(1, "a\\b"), message(2, "end")]), sort_keys=True, indent=1)
    path = tmp_path / "result.json"
    path.write_text(content.replace('"end"', r'"e\x1Fn\\x41d"'), "utf-8-sig")
    found, posts = read(path)
    assert found.id == CHANNEL
    assert [post.text for post in posts] == ["a\\b", "e\x1fn\\x41d"]


def test_odd_messages_are_counted_and_hurt_no_other(tmp_path: Path) -> None:
    told = [
        message(1),
        {"id": 2, "type": "unsupported"},
        {**message(3), "date_unixtime": "soon"},
        {**message(4), "text_entities": 5},
        message(5, when=LATEST + timedelta(days=1)),
        {**message(6), "id": 2**40},
        message(7),
    ]
    with Export.open([write_json(tmp_path, chat(told))], latest=LATEST) as export:
        [one] = export.survey(None)
        batches = list(one.reader.batches(one.chat, CHANNEL, None, 500))
    assert [post.message_id for batch in batches for post in batch.posts] == [1, 7]
    assert sum(batch.unusual for batch in batches) == 5
    assert one.chat.newest_at == at(7)  # a wrong date would harm the channel


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"messages": {}}',
        b'{"name": "x", "type": "public_channel", "id": "?", "messages": []}',
        b'{"messages": [{"id": 1}]}',
        b'{"name": "x", "type": "public_channel", "id": 5, "messages": []} and more',
        b'{"name": "' + b"x" * 100,
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(BadExport):
        read(path)


def test_an_empty_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadExport, match="empty"):
        read(write_json(tmp_path, chat([])))


@pytest.mark.parametrize("piece", [64, 512 * 1024])
def test_wherever_it_is_cut_off_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(export_stream, "PIECE", piece)
    path = write_json(tmp_path, chat([message(number) for number in range(1, 6)]))
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(BadExport):
            read(path)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.just("id"), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_json, max_size=12), st.sampled_from([None, 1]), st.sampled_from([16, 64, 4096]))
@example([{"": "a text that goes on }"}], None, 16)
def test_items_come_one_by_one_as_they_stand(items: list[Any], indent: int | None, piece: int) -> None:
    text = json.dumps({"a": items, "b": 1}, indent=indent).encode()
    before, export_stream.PIECE = export_stream.PIECE, piece
    try:
        stream = Stream(io.BytesIO(text), "test")
        found: dict[str, Any] = {}
        for key in stream.members():
            if key == "a":
                found[key] = [json.loads(bytes(one or b"")) for some in stream.many(Raw) for one in some]
            else:
                found[key] = stream.value(int)
        stream.finish()
    finally:
        export_stream.PIECE = before
    assert found == {"a": items, "b": 1}
