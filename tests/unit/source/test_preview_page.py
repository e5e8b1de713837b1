"""Public preview pages: what they show becomes posts; what is no such page is told apart, and never as a deletion."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from random import Random

import pytest

from telegram_assistant.domain.post import Counters, Forward, MediaKind, Poll, Post, ReplyTo, Service
from telegram_assistant.domain.text import Entity, EntityKind, Link
from telegram_assistant.source.preview_message import rounded
from telegram_assistant.source.preview_page import WORDS, NotShown, Refusal, read_page, read_post

pytestmark = pytest.mark.unit

CHANNEL = 1084368520
HEAD = """<!DOCTYPE html><html><head><meta property="og:title" content="News"></head><body>
<header class="tgme_header"><section class="tgme_right_column"><div class="tgme_channel_info">
<i class="tgme_page_photo_image"><img src="https://cdn.example/a.jpg"></i>
<div class="tgme_channel_info_header_title"><span dir="auto">News &amp; more</span></div>
<div class="tgme_channel_info_header_username"><a href="https://t.me/news">@news</a></div>
<div class="tgme_channel_info_counter"><span class="counter_value">1.25M</span>
<span class="counter_type">subscribers</span></div>
<div class="tgme_channel_info_counter"><span class="counter_value">8</span>
<span class="counter_type">files</span></div>
<div class="tgme_channel_info_description">All of it<br/>By <a href="https://t.me/us">@us</a></div>
</div></section></header><main><section class="tgme_channel_history js-message_history">"""
TAIL = "</section></main></body></html>"


def view(post: int | str, channel: int = -CHANNEL) -> str:
    told = json.dumps({"c": channel, "p": post, "t": 1677593835, "h": "9e1d"}).encode()
    return base64.urlsafe_b64encode(told).decode().rstrip("=")


def block(number: int, inside: str = "", *, text: str = "", meta: str = "", more: str = "", kind: str = "") -> str:
    body = f'<div class="tgme_widget_message_text js-message_text" dir="auto">{text}</div>' if text else ""
    return f"""<div class="tgme_widget_message_wrap js-widget_message_wrap"><div
      class="tgme_widget_message text_not_supported_wrap {kind} js-widget_message" data-post="news/{number}"
      data-view="{view(number)}"><div class="tgme_widget_message_bubble">
      <div class="tgme_widget_message_author"><a class="tgme_widget_message_owner_name"><span>News</span></a></div>
      {inside}{body}{more}
      <div class="tgme_widget_message_footer"><div class="tgme_widget_message_info">
      <span class="tgme_widget_message_views">1.2K</span><span class="tgme_widget_message_meta">{meta}<a
      class="tgme_widget_message_date" href="https://t.me/news/{number}"><time
      datetime="2023-02-28T10:47:53+03:00" class="time">07:47</time></a></span></div></div></div></div></div>"""


def page(*blocks: str, head: str = HEAD) -> bytes:
    return "".join((head, *blocks, TAIL)).encode()


def only(inside: str = "", **parts: str) -> Post:
    [post] = read_page(page(block(7, inside, **parts))).posts
    return post


def test_a_page_of_posts_and_the_channel_they_are_of() -> None:
    more = '<a class="tme_messages_more js-messages_more" data-before="5" href="/s/news?before=5"></a>'
    found = read_page(page(more, block(5, text="first"), block(9, text="second")))
    assert [(post.message_id, post.text) for post in found.posts] == [(5, "first"), (9, "second")]
    assert (found.channel_id, found.older, found.newer, found.unreadable) == (CHANNEL, 5, None, ())
    card = found.card
    assert (card.title, card.username, card.about) == ("News & more", "news", "All of it\nBy @us")
    assert (card.subscribers, card.picture) == (1_250_000, "https://cdn.example/a.jpg")
    [post, _] = found.posts
    assert (post.channel_id, post.posted_at) == (CHANNEL, datetime(2023, 2, 28, 7, 47, 53, tzinfo=UTC))
    assert post.preview is not None
    assert not post.preview.edited
    assert post.counters == Counters(views=1200)


def test_formatting_and_links() -> None:
    post = only(
        text='<b>Bold <i>both</i></b> <i class="emoji" style="x"><b>🔥</b></i><br/>see <a href="http://a.example/x">'
        'a.example/x</a> and <a href="http://b.example/">here</a>,<br>\n   <a href="?q=%23tag">#tag</a> '
        '<a href="https://t.me/one">@one</a> <tg-spoiler>no</tg-spoiler> <s>old</s> <u>new</u> '
        '<pre><code class="language-py">a\n  b</code></pre><blockquote>said</blockquote>'
        '<tg-emoji emoji-id="42"><i class="emoji"><b>👍</b></i></tg-emoji><code>x</code> '
    )
    assert post.text == "Bold both 🔥\nsee a.example/x and here,\n#tag @one no old new a\n  bsaid👍x"
    assert post.entities == (
        Entity(EntityKind.BOLD, 0, 9),
        Entity(EntityKind.ITALIC, 5, 4),
        Entity(EntityKind.URL, 17, 11),
        Entity(EntityKind.TEXT_URL, 33, 4, "http://b.example/"),
        Entity(EntityKind.HASHTAG, 39, 4),
        Entity(EntityKind.MENTION, 44, 4),
        Entity(EntityKind.SPOILER, 49, 2),
        Entity(EntityKind.STRIKE, 52, 3),
        Entity(EntityKind.UNDERLINE, 56, 3),
        Entity(EntityKind.PRE, 60, 5, detail="py"),
        Entity(EntityKind.BLOCKQUOTE, 65, 4),
        Entity(EntityKind.CUSTOM_EMOJI, 69, 2, detail="42"),
        Entity(EntityKind.CODE, 71, 1),
    )
    assert post.urls == ("http://a.example/x", "http://b.example/")


def test_markup_that_was_broken_into_lines_is_no_part_of_the_text() -> None:
    post = only(text="One  two\n        three <b>four\n   five</b><br/>\n      six<span style='width:10px'></span>\n  ")
    assert post.text == "One  two three four five\nsix"


def test_a_label_beside_the_text_and_the_answered_text_are_not_the_text() -> None:
    reply = (
        '<a class="tgme_widget_message_reply" href="https://t.me/news/3"><div class="tgme_widget_message_text'
        ' js-message_reply_text">the earlier one</div></a><div class="message_media_not_supported_wrap"><div'
        ' class="message_media_not_supported"><div class="message_media_not_supported_label">Please open Telegram to'
        " view this post</div></div></div>"
    )
    post = only(reply, text="mine")
    assert (post.text, post.reply_to, post.media) == ("mine", ReplyTo(message_id=3), ())


def test_forwards_authors_edits_and_reactions() -> None:
    forward = (
        '<div class="tgme_widget_message_forwarded_from">Forwarded from&nbsp;<a'
        ' class="tgme_widget_message_forwarded_from_name" href="https://t.me/other/44"><span>Other</span></a></div>'
    )
    reactions = (
        '<div class="tgme_widget_message_reactions"><span class="tgme_reaction"><i class="emoji"><b>👍</b></i>'
        '2.5K</span><span class="tgme_reaction"><tg-emoji emoji-id="9"></tg-emoji>3</span></div>'
    )
    meta = 'edited &nbsp;<span class="tgme_widget_message_from_author">Ann</span>,&nbsp;'
    post = only(forward, text="x", meta=meta, more=reactions)
    assert post.forward == Forward(message_id=44, name="Other")
    assert post.author == "Ann"
    assert post.preview is not None
    assert post.preview.edited
    assert post.counters == Counters.counted(views=1200, reactions={"👍": 2500, "custom:9": 3})
    assert post.edited_at is None


def photo(number: int, *, classes: str = "", single: bool = False) -> str:
    href = f"https://t.me/news/{number}{'?single' if single else ''}"
    style = f"width:800px;background-image:url('https://cdn.example/{number}.jpg')"
    return f'<a class="tgme_widget_message_photo_wrap {classes}" href="{href}" style="{style}"><div></div></a>'


def test_an_album_is_as_many_posts_as_it_has_items() -> None:
    items = photo(7, single=True) + photo(8, single=True)
    video = (
        '<a class="tgme_widget_message_video_player grouped_media_wrap" href="https://t.me/news/10?single"><video'
        ' src="https://cdn.example/10.mp4"></video><time class="message_video_duration">1:05</time></a>'
    )
    grouped = f'<div class="tgme_widget_message_grouped_wrap">{items}{video}</div>'
    found = read_page(page(block(7, grouped, text="caption"), block(11, text="next"))).posts
    album, last = found[:3], found[3]
    assert [(post.message_id, post.text, post.grouped_id) for post in album] == [
        (7, "caption", -7),
        (8, "", -7),
        (10, "", -7),
    ]
    assert [post.media[0].kind for post in album] == [MediaKind.PHOTO, MediaKind.PHOTO, MediaKind.VIDEO]
    assert album[2].media[0].duration == 65
    assert (last.message_id, last.grouped_id) == (11, None)


def test_a_file_is_known_by_more_than_its_address_which_dies() -> None:
    [file] = only(photo(7, classes="5467914902124479304 1273098146_456246088")).media
    assert (file.file_id, file.reference) == ("preview:5467914902124479304", "https://cdn.example/7.jpg")
    before = only(photo(7))
    after = only(photo(7).replace("cdn.example", "cdn5.example"))
    assert before.content_hash == after.content_hash
    assert before.media[0].file_id == f"preview:{CHANNEL}:7:0"


@pytest.mark.parametrize(
    "inside,kind,name,has_address",
    [
        (
            (
                '<a class="tgme_widget_message_video_player not_supported" href="x"><time>1:09</time><div'
                ' class="message_media_not_supported">Media is too big</div></a>'
            ),
            MediaKind.VIDEO,
            None,
            False,
        ),
        (
            '<a class="tgme_widget_message_video_player"><video src="//c.example/g.mp4" autoplay loop></video></a>',
            MediaKind.ANIMATION,
            None,
            True,
        ),
        (
            '<div class="tgme_widget_message_roundvideo_player"><video src="https://c.example/r.mp4"></video></div>',
            MediaKind.VIDEO_NOTE,
            None,
            True,
        ),
        (
            '<a class="tgme_widget_message_voice_player"><audio src="https://c.example/v.ogg"></audio></a>',
            MediaKind.VOICE,
            None,
            True,
        ),
        (
            (
                '<a class="tgme_widget_message_document_wrap"><div class="tgme_widget_message_document_title">plan.pdf'
                '</div><div class="tgme_widget_message_document_extra">2.5 MB</div></a>'
            ),
            MediaKind.DOCUMENT,
            "plan.pdf",
            False,
        ),
        (
            (
                '<div class="tgme_widget_message_sticker_wrap"><picture><source srcset="https://c.example/s.tgs"></picture>'
                "</div>"
            ),
            MediaKind.STICKER,
            None,
            True,
        ),
        ('<div class="message_media_not_supported">Please open Telegram</div>', MediaKind.OTHER, None, False),
    ],
)
def test_kinds_of_media(inside: str, kind: MediaKind, name: str | None, has_address: bool) -> None:
    [file] = only(inside).media
    assert (file.kind, file.name) == (kind, name)
    assert (file.file_id is not None) is (file.reference is not None) is has_address
    assert file.size == (round(2.5 * 2**20) if name else None)


def test_a_poll_a_service_message_and_a_link_preview() -> None:
    options = "".join(f'<div class="tgme_widget_message_poll_option_text">{one}</div>' for one in ("yes", "no"))
    poll = (
        '<div class="tgme_widget_message_poll"><div class="tgme_widget_message_poll_question">Well?</div><div'
        f' class="tgme_widget_message_poll_type">Anonymous Quiz</div>{options}</div>'
    )
    meta = '<span class="tgme_widget_message_voters">222</span>'
    assert only(poll, meta=meta).poll == Poll(question="Well?", answers=("yes", "no"), quiz=True, voters=222)
    made = only(text="Channel created", kind="service_message")
    assert (made.service, made.text) == (Service("created", "Channel created"), "")
    link = '<a class="tgme_widget_message_link_preview" href="https://a.example/"><div>A</div></a>'
    assert only(link, text="no address").links == (Link("https://a.example/", "", hidden=True),)


@pytest.mark.parametrize(
    "text,number", [("1", 1), ("999", 999), ("1.2K", 1200), ("214.4K", 214_400), ("1M", 1_000_000), ("x", None)]
)
def test_rounded_figures(text: str, number: int | None) -> None:
    assert rounded(text) == number


def landing(extra: str = "", title: str = '<div class="tgme_page_title">Name</div>', said: str = "") -> bytes:
    return (
        f'<html><body><div class="tgme_page_wrap"><div class="tgme_page">{title}'
        f'<div class="tgme_page_extra">{extra}</div><div class="tgme_page_description">{said}</div></div></div></body>'
    ).encode()


@pytest.mark.parametrize(
    "html,refusal",
    [
        (landing("109K subscribers"), Refusal.NO_PREVIEW),
        (landing("12 subscribers", said="This channel can't be displayed because of its content"), Refusal.WITHHELD),
        (landing("1 234 members, 56 online"), Refusal.GROUP),
        (landing(said="You are invited to a private channel"), Refusal.PRIVATE),
        (landing("@name"), Refusal.PERSON),
        (landing(title="", said="If you have Telegram, you can contact @name right away."), Refusal.MISSING),
        (b"<html><body><h1>Checking your browser</h1></body></html>", Refusal.ODD),
        (b"", Refusal.ODD),
        (b"\x00\xff\xfe", Refusal.ODD),
        (page(), Refusal.EMPTY),
        (page(block(7, text="x").replace("data-post", "data-item")), Refusal.CHANGED),
        (page(block(7, text="x").replace("data-view", "data-seen")), Refusal.CHANGED),
        (page(block(7, text="x").replace("<time", "<tim")), Refusal.CHANGED),
    ],
)
def test_pages_that_are_none(html: bytes, refusal: Refusal) -> None:
    with pytest.raises(NotShown) as told:
        read_page(html)
    assert told.value.refusal is refusal
    assert "@news" in told.value.words("@news")


def test_every_refusal_has_words() -> None:
    assert WORDS.keys() == set(Refusal)


def test_one_post_alone() -> None:
    [post] = read_post(page(block(7, text="x"), head="<html><body>"), CHANNEL) or ()
    assert (post.message_id, post.text) == (7, "x")
    error = b'<html><body><div class="tgme_widget_message_error">Post not found</div></body></html>'
    assert read_post(error, CHANNEL) is None
    with pytest.raises(NotShown, match="changed"):  # of another channel, which has the name now
        read_post(page(block(7, text="x"), head="<html><body>"), CHANNEL + 1)
    with pytest.raises(NotShown, match="odd"):
        read_post(b"<html><body>One moment</body></html>", CHANNEL)


def test_one_strange_block_does_not_hurt_the_others() -> None:
    found = read_page(page(block(5, text="a"), block(6, text="b").replace("2023-02-28T", "yesterday"), block(8)))
    assert [post.message_id for post in found.posts] == [5, 8]
    assert found.unreadable == (6,)


def test_a_page_that_broke_off_shows_fewer_posts_and_none_of_them_cut() -> None:
    whole = page(*(block(number, photo(number), text=f"<b>text</b> of {number}") for number in range(5, 12)))
    known = set(read_page(whole).posts)
    rng, seen = Random(5), set()
    for _ in range(100):
        try:
            found = read_page(whole[: rng.randrange(len(whole))])
        except NotShown:
            continue
        assert set(found.posts) <= known
        seen.add(len(found.posts))
    assert len(seen) > 3


def test_broken_bytes_are_read_or_refused_and_nothing_else() -> None:
    whole = page(*(block(number, photo(number), text=f"<b>text</b> of {number}") for number in range(5, 12)))
    rng, refused = Random(6), 0
    for _ in range(100):
        broken = bytearray(whole)
        for _ in range(rng.randrange(1, 200)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        try:
            read_page(bytes(broken))
        except NotShown:
            refused += 1
    assert refused < 100
