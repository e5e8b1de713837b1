"""What the bot says: texts in the reader's language; posts, answers and digests as Telegram's HTML, all escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from telegram_assistant.domain.digests import Content, Correction, Coverage, Told, Wish
from telegram_assistant.domain.query import Note
from telegram_assistant.domain.results import Hit, Results, Shown, Snippet
from telegram_assistant.domain.text import clean_text
from telegram_assistant.i18n import load_texts
from telegram_assistant.jobs.digests import ShownIssue
from telegram_assistant.search.ask import Answered

LONGEST_SNIPPET = 280
LONGEST_QUERY = 100  # of what is shown
MOST_NOTES = 3
MOST_BEHIND = 5


@dataclass(frozen=True, slots=True)
class Say:
    """Texts in one language. All values that are put into them are escaped."""

    language: str

    def __call__(self, key: str, **values: object) -> Markup:
        safe = {name: value if isinstance(value, int) else escape(str(value)) for name, value in values.items()}
        safe |= {name: value for name, value in values.items() if isinstance(value, Markup)}
        return Markup(load_texts()(self.language, f"bot.{key}", **safe))  # noqa: S704 - our own texts, filled with escaped values

    def plain(self, key: str, **values: object) -> str:
        """Without markup: for buttons."""
        return load_texts()(self.language, f"bot.{key}", **values)

    def when(self, moment: datetime, zone: tzinfo = UTC) -> str:
        shown = moment.astimezone(zone)
        return f"{shown:%d.%m.%Y %H:%M %Z}" if self.language == "ru" else f"{shown:%Y-%m-%d %H:%M %Z}"


def lines(*parts: str) -> Markup:
    return Markup("\n").join(part for part in parts if part)


def paragraphs(parts: Iterable[str]) -> Markup:
    return Markup("\n\n").join(part for part in parts if part)


def href(url: str, text: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(clean_text(url), clean_text(text))


def shortened(text: str, most: int) -> str:
    """On one line, and not more than this."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def marked(snippet: Snippet) -> Markup:
    """A snippet with what was looked for in bold."""
    text, parts, last = snippet.text, [], 0
    for start, end in snippet.spans:
        if start >= last:
            parts += [escape(text[last:start]), Markup("<b>{}</b>").format(text[start:end])]
            last = end
    whole = Markup("").join([*parts, escape(text[last:])])
    return Markup("{}{}{}").format("…" if snippet.cut_before else "", whole, "…" if snippet.cut_after else "")


def post_line(post: Shown, say: Say) -> Markup:
    """Where and when."""
    return Markup("{} · {}").format(href(post.url, post.channel_title), say.when(post.posted_at))


def hit_lines(number: int, hit: Hit, say: Say) -> Markup:
    told = {teller.channel_id for teller in hit.tellers}
    also = Markup(" · {}").format(say("also_told", n=len(told))) if len(told) > 1 else ""
    text = marked(hit.snippet) if hit.snippet.text.strip() else say("wordless")
    return lines(Markup("{}. {}{}").format(number, post_line(hit.post, say), also), text)


def results_page(query: str, results: Results, say: Say, *, page: int, per_page: int) -> Markup:
    shown = shortened(query, LONGEST_QUERY)
    if not results.hits:
        title = say("found_nothing", query=shown) if shown else say("no_channels")
    elif shown:
        title = say("found" if results.found else "found_near", query=shown, n=results.found or results.near)
    else:
        title = say("newest")
    if page:
        title = Markup("{}, {}").format(title, say("page", page=page + 1))
    hits = [hit_lines(page * per_page + number, hit, say) for number, hit in enumerate(results.hits, 1)]
    return paragraphs([title, notes_lines(results.notes, results.without_meaning, say), *hits])


def notes_lines(notes: Sequence[Note], without_meaning: str, say: Say) -> Markup:
    told = [
        Markup("<i>{}</i>").format(say(f"note_{note.trouble.name.lower()}", value=shortened(note.value, 60)))
        for note in notes[:MOST_NOTES]
    ]
    return lines(*told, say("words_alone") if without_meaning else "")


def answer_text(answered: Answered, say: Say) -> Markup:
    """Each sentence with the numbers of its sources, which are links too."""
    notes = notes_lines(answered.notes, answered.without_meaning, say)
    if not answered.sentences:
        return paragraphs([say("no_answer", posts=say("posts", n=answered.looked_at)), notes])
    said = []
    for sentence in answered.sentences:
        numbers = [href(answered.sources[number - 1].url, f"[{number}]") for number in sentence.sources]
        said.append(Markup("{} {}").format(clean_text(sentence.text), Markup("").join(numbers)))
    sources = [
        Markup("[{}] {}").format(number, post_line(post, say)) for number, post in enumerate(answered.sources, 1)
    ]
    return paragraphs([Markup(" ").join(said), lines(Markup("<b>{}</b>").format(say("sources")), *sources), notes])


def issue_text(wish: Wish, since: datetime, until: datetime, shown: ShownIssue, say: Say) -> Markup:
    """The title names the period in the zone of the digest."""
    content = shown.content
    zone = ZoneInfo(wish.schedule.zone)
    title = say("digest_title", name=wish.name, since=say.when(since, zone), until=say.when(until, zone))
    stories = [
        part
        for heading, some in content.sections
        for part in (
            *([Markup("<b>{}</b>").format(clean_text(heading).upper())] if heading else []),
            *(_story(number, told, content, say) for number, told in some),
        )
    ]
    return paragraphs(
        [
            title,
            _corrections(content, shown.corrections, say),
            *(stories or [say("digest_empty")]),
            _coverage(content.coverage, say),
        ]
    )


def _story(number: int, told: Told, content: Content, say: Say) -> Markup:
    """What it says, then its sources, each once."""
    said = Markup(" ").join(clean_text(one.text) or say("digest_withdrawn") for one in told.sentences)
    cited = dict.fromkeys(at for sentence in told.sentences for at in sentence.sources)
    links = Markup(" ").join(href(content.cited[at].url, f"[{content.cited[at].channel}]") for at in cited)
    also = Markup(" · {}").format(say("also_told", n=told.channels)) if told.channels > 1 else ""
    return Markup("<b>{}.</b> {} {}{}").format(number, said, links, also)


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
