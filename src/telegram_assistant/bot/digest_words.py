"""An issue of a digest as a message: each sentence with its sources, what was read, and what changed since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from markupsafe import Markup

from telegram_assistant.bot.words import Say, href, lines, paragraphs, shortened
from telegram_assistant.domain.digests import Content, Correction, Coverage, Told, Wish
from telegram_assistant.domain.text import clean_text
from telegram_assistant.jobs.digest_desk import Shown

MOST_BEHIND = 5


def issue_text(wish: Wish, since: datetime, until: datetime, shown: Shown, say: Say) -> Markup:
    """The title names the period in the zone of the digest."""
    content = shown.content
    zone = ZoneInfo(wish.schedule.zone)
    title = say("digest_title", name=wish.name, since=say.when(since, zone), until=say.when(until, zone))
    stories = [_story(number, told, content, say) for number, told in enumerate(content.stories, 1)]
    return paragraphs(
        [
            title,
            _corrections(content, shown.corrections, say),
            *(stories or [say("digest_empty")]),
            _coverage(content.coverage, say),
        ]
    )


def _story(number: int, told: Told, content: Content, say: Say) -> Markup:
    said = []
    for sentence in told.sentences:
        links = [href(content.cited[at].url, f"[{content.cited[at].channel}]") for at in sentence.sources]
        text = clean_text(sentence.text) or say("digest_withdrawn")
        said.append(Markup("{} {}").format(text, Markup(" ").join(links)))
    also = Markup(" · {}").format(say("also_told", n=told.channels)) if told.channels > 1 else ""
    return Markup("<b>{}.</b> {}{}").format(number, Markup(" ").join(said), also)


def _corrections(content: Content, corrections: Sequence[Correction], say: Say) -> Markup:
    if not corrections:
        return Markup("")
    told = []
    for one in corrections:
        cited = content.cited[one.source]
        told.append(say(f"corrected_{one.change}", channel=href(cited.url, cited.channel)))
    return lines(Markup("<b>{}</b>").format(say("digest_corrected")), *told)


def _coverage(coverage: Coverage, say: Say) -> Markup:
    read = say(
        "digest_coverage",
        posts=say("posts", n=coverage.posts),
        channels=say("channels", n=coverage.channels),
        stories=say("stories", n=coverage.stories),
        told=coverage.told,
    )
    behind = [shortened(one.channel, 40) for one in coverage.behind[:MOST_BEHIND]]
    more = "…" if len(coverage.behind) > MOST_BEHIND else ""
    late = say("digest_behind", channels=", ".join(behind) + more) if behind else ""
    return Markup("<i>{}</i>").format(lines(read, late))
