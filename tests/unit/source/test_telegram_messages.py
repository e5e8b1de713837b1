"""Messages of Telethon become posts with everything that is in them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs
from telethon.tl import types

from telegram_assistant.domain.post import Counters, Forward, MediaKind, Post, ReplyTo, Service
from telegram_assistant.domain.text import Entity, EntityKind, Link
from telegram_assistant.source.telegram_messages import messages_of, post_of, to_post

pytestmark = pytest.mark.unit

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
LATER = datetime(2024, 5, 1, 13, tzinfo=UTC)


def message(**fields: Any) -> Any:
    return types.Message(
        **{"id": 7, "peer_id": types.PeerChannel(100), "date": NOON, "message": "", "post": True} | fields
    )


def service(action: Any, **fields: Any) -> Any:
    return types.MessageService(id=7, peer_id=types.PeerChannel(100), date=NOON, post=True, action=action, **fields)


def answer(*messages: Any, users: Any = (), chats: Any = ()) -> Any:
    return types.messages.ChannelMessages(1, len(messages), list(messages), [], list(chats), list(users))


def photo(number: int = 1) -> Any:
    sizes = [
        types.PhotoStrippedSize("i", b"\x01"),
        types.PhotoSize("m", 320, 240, 9_000),
        types.PhotoSizeProgressive("y", 1280, 960, [10_000, 90_000, 50_000]),
    ]
    return types.Photo(number, 5, b"reference", NOON, sizes, 4)


def test_a_plain_post() -> None:
    assert to_post(message(message="Привет")) == Post(channel_id=100, message_id=7, posted_at=NOON, text="Привет")


def test_everything_that_counts() -> None:
    reactions = types.MessageReactions(
        results=[
            types.ReactionCount(types.ReactionEmoji("👍"), 5),
            types.ReactionCount(types.ReactionCustomEmoji(-9), 2),
            types.ReactionCount(types.ReactionPaid(), 1),
        ]
    )
    post = to_post(
        message(views=10, forwards=3, replies=types.MessageReplies(4, 0, comments=True), reactions=reactions)
    )
    assert post.counters == Counters.counted(
        views=10, forwards=3, replies=4, reactions={"👍": 5, "custom:-9": 2, "paid": 1}
    )


def test_origin_target_and_author() -> None:
    header = types.MessageFwdHeader(date=LATER, from_id=types.PeerChannel(300), channel_post=9, post_author="Bob")
    post = to_post(
        message(
            fwd_from=header,
            reply_to=types.MessageReplyHeader(reply_to_msg_id=3),
            post_author="Ann",
            grouped_id=55,
            pinned=True,
        )
    )
    assert post.forward == Forward(channel_id=300, message_id=9, author="Bob", posted_at=LATER)
    assert post.reply_to == ReplyTo(message_id=3)
    assert (post.author, post.author_id, post.grouped_id, post.pinned) == ("Ann", None, 55, True)


@pytest.mark.parametrize(
    "header, forward",
    [
        (types.MessageFwdHeader(NOON, from_id=types.PeerUser(8)), Forward(user_id=8, posted_at=NOON)),
        (types.MessageFwdHeader(NOON, from_name="Hid\0den"), Forward(name="Hidden", posted_at=NOON)),
    ],
)
def test_forwards_of_people(header: Any, forward: Forward) -> None:
    assert to_post(message(fwd_from=header)).forward == forward


def test_a_story_is_no_reply_target() -> None:
    assert to_post(message(reply_to=types.MessageReplyStoryHeader(types.PeerUser(1), 3))).reply_to is None


def test_a_hidden_edit_is_none() -> None:
    assert to_post(message(edit_date=LATER)).edited_at == LATER
    assert to_post(message(edit_date=LATER, edit_hide=True)).edited_at is None


def test_a_comment_has_its_writer_and_thread() -> None:
    direct = message(post=False, from_id=types.PeerUser(8), reply_to=types.MessageReplyHeader(reply_to_msg_id=2))
    nested = message(
        id=8,
        post=False,
        from_id=types.PeerChannel(300),
        reply_to=types.MessageReplyHeader(reply_to_msg_id=7, reply_to_top_id=2),
    )
    chat = types.Channel(300, "Other", types.ChatPhotoEmpty(), NOON)
    found = messages_of(answer(nested, direct, users=[types.User(8, first_name="Ann", last_name="Lee")], chats=[chat]))
    first, second = found.posts
    assert (first.author, first.author_id, first.reply_to) == ("Ann Lee", 8, ReplyTo(message_id=2, thread_id=2))
    assert (second.author, second.author_id, second.reply_to) == ("Other", None, ReplyTo(message_id=7, thread_id=2))


def test_text_with_its_entities_and_hidden_links() -> None:
    text = "🎈 a\0b https://x.org here"
    post = to_post(
        message(
            message=text,
            entities=[
                types.MessageEntityBold(3, 3),
                types.MessageEntityUrl(7, 13),
                types.MessageEntityTextUrl(21, 4, "https://hidden.org/"),
                types.MessageEntityMentionName(21, 4, 77),
                types.MessageEntityPre(21, 4, "py"),
                types.MessageEntityCustomEmoji(0, 2, -5),
                types.MessageEntityFormattedDate(21, 4, NOON),
            ],
        )
    )
    assert post.text == "🎈 ab https://x.org here"
    assert post.entities == (
        Entity(EntityKind.BOLD, 3, 2),
        Entity(EntityKind.URL, 6, 13),
        Entity(EntityKind.TEXT_URL, 20, 4, url="https://hidden.org/"),
        Entity(EntityKind.TEXT_MENTION, 20, 4, detail="77"),
        Entity(EntityKind.PRE, 20, 4, detail="py"),
        Entity(EntityKind.CUSTOM_EMOJI, 0, 2, detail="-5"),
        Entity(EntityKind.OTHER, 20, 4),
    )
    assert post.links == (Link("https://x.org", "https://x.org"), Link("https://hidden.org/", "here", hidden=True))


def test_a_text_of_combining_characters_stays_whole() -> None:
    text = "e" + "\u0301" * 4095
    assert to_post(message(message=text)).text == text


def test_a_preview_is_no_media_but_its_address_counts_where_the_text_has_none() -> None:
    page = types.MessageMediaWebPage(types.WebPage(1, "https://page.org", "page.org", 0))
    assert (to_post(message(media=page)).media, to_post(message(media=page)).urls) == ((), ("https://page.org",))
    linked = to_post(message(message="x.org", entities=[types.MessageEntityUrl(0, 5)], media=page))
    assert linked.urls == ("http://x.org",)


def test_a_poll() -> None:
    def said(text: str) -> Any:
        return types.TextWithEntities(text, [])

    poll = types.Poll(1, said("Да\0?"), [types.PollAnswer(said("да"), b"0")], hash=0, quiz=True, closed=True)
    post = to_post(message(media=types.MessageMediaPoll(poll, types.PollResults(total_voters=4))))
    assert post.poll is not None
    assert (post.poll.question, post.poll.answers, post.poll.quiz, post.poll.closed) == ("Да?", ("да",), True, True)
    assert (post.poll.voters, post.media) == (4, ())


@pytest.mark.parametrize(
    "made, expected",
    [
        (service(types.MessageActionChatEditTitle("New")), Service("title", "New")),
        (service(types.MessageActionChannelCreate("News")), Service("created", "News")),
        (service(types.MessageActionChatEditPhoto(types.PhotoEmpty(0))), Service("photo")),
        (
            service(types.MessageActionPinMessage(), reply_to=types.MessageReplyHeader(reply_to_msg_id=4)),
            Service("pin", "4"),
        ),
        (service(types.MessageActionSetMessagesTTL(86_400)), Service("set_messages_ttl")),
        (service(types.MessageActionBoostApply(2)), Service("boost_apply")),
    ],
)
def test_service_messages(made: Any, expected: Service) -> None:
    assert to_post(made).service == expected


def test_a_page_of_blocks_is_read_as_text() -> None:
    words = types.TextConcat(
        [types.TextBold(types.TextPlain("Big ")), types.TextUrl(types.TextPlain("news"), "https://x.org/1", 0)]
    )
    blocks = [types.PageBlockHeading1(words), types.PageBlockList([types.PageListItemText(types.TextPlain("one"))])]
    post = to_post(message(rich_message=types.RichMessage(blocks, [photo(3)], [])))
    assert post.text == "Big news\none"
    assert post.links == (Link("https://x.org/1", "news", hidden=True),)
    assert [media.file_id for media in post.media] == ["photo:3"]


def test_what_is_strange_becomes_a_post_that_says_so() -> None:
    strange = message(message="still here", reactions="no reactions at all")
    with capture_logs() as logs:
        post = post_of(strange)
    assert post == Post(
        channel_id=100, message_id=7, posted_at=NOON, text="still here", service=Service("unknown", "Message")
    )
    assert [(line["event"], line["message"]) for line in logs] == [("message_not_understood", "100/7 (Message)")]


def test_one_that_cannot_be_placed_spoils_no_other() -> None:
    lost = message(id=8)
    lost.date = None
    found = messages_of(answer(message(id=9), lost, types.MessageEmpty(4, None), message(id=3)))
    assert [post.message_id for post in found.posts] == [3, 9]
    assert (found.unreadable, found.ids) == ((8,), (3, 4, 8, 9))


def test_media_that_the_library_does_not_support_is_still_seen() -> None:
    post = to_post(message(message="look", media=types.MessageMediaUnsupported()))
    assert [(media.kind, media.name) for media in post.media] == [(MediaKind.OTHER, "unsupported")]
