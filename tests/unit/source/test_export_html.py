"""`messages.html`: the same posts as JSON, as far as HTML tells."""

from __future__ import annotations

from datetime import timedelta, tzinfo
from pathlib import Path

import pytest

from telegram_assistant.domain.post import MediaKind, Post
from telegram_assistant.domain.text import EntityKind
from telegram_assistant.source.export import Export
from telegram_assistant.source.export_files import BadExport
from telegram_assistant.source.export_posts import Chat, NoZone
from tests.exports import CHANNEL, EAST, START, at, html_message, html_page, write_html

pytestmark = pytest.mark.unit

LATEST = START + timedelta(days=1000)


def read(path: Path, zone: tzinfo | None = None) -> tuple[Chat, list[Post]]:
    with Export.open([path], latest=LATEST) as export:
        [one] = export.survey(zone)
        batches = one.reader.batches(one.chat, CHANNEL, zone, 500)
        return one.chat, [post for batch in batches for post in batch.posts]


def test_pages_in_their_order(tmp_path: Path) -> None:
    pages = [[html_message(number * 10 + one) for one in range(1, 4)] for number in range(11)]
    found, posts = read(write_html(tmp_path, pages))
    assert (found.title, found.kind, found.id, found.messages) == ("News", "channel", None, 33)
    assert (found.lowest_id, found.highest_id, found.newest_at) == (1, 103, at(103))
    assert [post.message_id for post in posts] == sorted(post.message_id for post in posts)
    assert [post.posted_at for post in posts] == [at(post.message_id) for post in posts]


def test_formatting(tmp_path: Path) -> None:
    words = (
        '<strong>Bold</strong> &amp; 🚀<br><br><a href="https://example.org/a">here</a> '
        '<a href="" onclick="return ShowHashtag(&quot;x&quot;)">#x</a> <a href="example.org">example.org</a>'
        ' <a href="https://t.me/durov">@durov</a> <a href="mailto:a@b.c">a@b.c</a><pre>code<br>more</pre>'
    )
    _, [post] = read(write_html(tmp_path, [[html_message(1, words)]]))
    assert post.text == "Bold & 🚀\n\nhere #x example.org @durov a@b.ccode\nmore"
    units = post.text.encode("utf-16-le")
    shown = [
        (entity.kind, units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le"))
        for entity in post.entities
    ]
    assert shown == [
        (EntityKind.BOLD, "Bold"),
        (EntityKind.TEXT_URL, "here"),
        (EntityKind.HASHTAG, "#x"),
        (EntityKind.URL, "example.org"),
        (EntityKind.MENTION, "@durov"),
        (EntityKind.EMAIL, "a@b.c"),
        (EntityKind.PRE, "code\nmore"),
    ]
    assert post.urls == ("https://example.org/a", "http://example.org")


MEDIA = """<div class="media_wrap clearfix">
<a class="{} clearfix pull_left" href="{}"><div class="body"><div class="title bold">{}</div></div></a></div>"""


@pytest.mark.parametrize(
    "classes,href,title,kind",
    [
        ("photo_wrap", "photos/1.jpg", "", MediaKind.PHOTO),
        ("video_file_wrap", "video_files/1.mp4", "", MediaKind.VIDEO),
        ("media block_link media_photo", "photos/1.jpg", "Photo", MediaKind.PHOTO),
        ("media block_link media_photo", "", "Sticker", MediaKind.STICKER),
        ("media block_link media_video", "round_video_messages/1.mp4", "Video message", MediaKind.VIDEO_NOTE),
        ("media block_link media_voice_message", "voice_messages/1.ogg", "Voice message", MediaKind.VOICE),
        ("media block_link media_file", "files/%D1%8F.pdf", "я.pdf", MediaKind.DOCUMENT),
        ("media block_link media_location", "https://maps", "Location", MediaKind.OTHER),
    ],
)
def test_files(tmp_path: Path, classes: str, href: str, title: str, kind: MediaKind) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "я.pdf").write_bytes(b"x")
    told = html_message(1, "", inside=MEDIA.format(classes, href, title))
    _, [post] = read(write_html(tmp_path, [[told]]))
    [media] = post.media
    assert media.kind is kind
    if kind is MediaKind.DOCUMENT:
        assert (media.reference, media.name) == ("files/я.pdf", "я.pdf")


def test_forwards_replies_signatures_polls_and_reactions(tmp_path: Path) -> None:
    inside = """<div class="reply_to details">In reply to <a href="#go_to_message9" onclick="">this message</a></div>
<div class="forwarded body"><div class="from_name">Other <span class="details"> 01.03.2024 09:00:00</span></div>
<div class="text">forwarded words</div></div>
<div class="media_wrap clearfix"><div class="media_poll"><div class="question bold">Q?</div>
<div class="answer">- Yes <span class="details">3 votes</span></div><div class="total details">3 votes</div></div></div>
<div class="signature details">Anna</div>
<span class="reactions"><span class="reaction"><span class="emoji">❤</span><span class="count">4</span></span></span>"""
    _, [post] = read(write_html(tmp_path, [[html_message(1, "", inside=inside)]]))
    assert post.text == "forwarded words"
    assert post.forward is not None
    assert post.forward.name == "Other"
    assert post.reply_to is not None
    assert post.reply_to.message_id == 9
    assert post.author == "Anna"
    assert post.poll is not None
    assert (post.poll.question, post.poll.answers, post.poll.voters) == ("Q?", ("Yes",), 3)
    assert post.counters.reactions == (("❤", 4),)


def test_times_without_an_offset_need_a_zone(tmp_path: Path) -> None:
    folder = write_html(tmp_path, [[html_message(1, offset="")]])
    with pytest.raises(NoZone, match="--zone"):
        read(folder)
    found, [post] = read(folder, EAST)
    assert found.without_offset
    assert post.posted_at == at(1)


def test_a_chat_of_several_people_is_no_channel(tmp_path: Path) -> None:
    folder = write_html(tmp_path, [[html_message(1, who="Anna"), html_message(2, who="Bob")]], title="Anna")
    found, posts = read(folder)
    assert found.kind != "channel"
    assert [post.author for post in posts] == [None, "Bob"]
    channel, _ = read(write_html(tmp_path / "c", [[html_message(1), html_message(2, who="News  via @vote")]]))
    assert channel.kind == "channel"


@pytest.mark.parametrize(
    "page,why",
    [
        ("", "no page of messages"),
        ("<html><body>Hello</body></html>", "no page of messages"),
        (html_page([html_message(1)])[:-60], "ends early"),
        ("\0\1\2", "no page of messages"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, page: str, why: str) -> None:
    (tmp_path / "messages.html").write_text(page, "utf-8")
    with pytest.raises(BadExport, match=why):
        read(tmp_path)


def test_pages_of_two_chats_are_not_mixed(tmp_path: Path) -> None:
    write_html(tmp_path, [[html_message(1)], [html_message(2)]])
    (tmp_path / "messages2.html").write_text(html_page([html_message(2)], "Other"), "utf-8")
    with pytest.raises(BadExport, match="another page"):
        read(tmp_path)
