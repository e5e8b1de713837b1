"""One channel at work: makes the messages of its next arrival, in its own voice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from telegram_simulator.archive import Archive
from telegram_simulator.documents import MIMES, plan_paper
from telegram_simulator.draft import CAPTION_LIMIT, POST_LIMIT, Written
from telegram_simulator.model import Channel, File, Forward, Kind, Message, Poll, Service
from telegram_simulator.pictures import plan_picture
from telegram_simulator.texts import LINK_HOST, Pen, Story, headline, new_story, pick, story_of
from telegram_simulator.voices import TOPICS, Voice, album_size

STORY_LIFE = timedelta(hours=30)  # after this no channel takes a story up


@dataclass(slots=True)
class Wire:
    """What all desks of a world see: stories that can be taken up, posts that can be forwarded."""

    link_host: str = LINK_HOST
    largest_document: int = 64 * 1024
    stories: deque[Story] = field(default_factory=lambda: deque(maxlen=80))
    posts: deque[tuple[Channel, int]] = field(default_factory=lambda: deque(maxlen=120))
    archive: Archive | None = None  # where all stories are kept, if the caller wants them later
    first_story: int = 1
    count: int = 0

    def new_story(self, rng: Random, topic: str, channel_id: int, date: datetime) -> Story:
        return self._known(new_story(rng, topic, self.first_story + self.count, channel_id, date))

    def event(self, kind: str, rng: Random, channel_id: int, date: datetime) -> Story:
        """One of the stories of what everybody talks about."""
        return self._known(story_of(kind, rng, self.first_story + self.count, channel_id, date))

    def _known(self, story: Story) -> Story:
        self.count += 1
        self.stories.append(story)
        if self.archive is not None:
            self.archive.add(story)
        return story


class Desk:
    """Writes for one channel. Messages leave it with id 0: they get theirs when they are posted."""

    def __init__(self, channel: Channel, voice: Voice, rng: Random, wire: Wire) -> None:
        self.channel = channel
        self.voice = voice
        self.rng = rng
        self.pen = Pen(voice, rng, username=channel.username, link_host=wire.link_host)
        self.recent: deque[int] = deque(maxlen=40)  # own ids that can be replied to
        self._wire = wire
        self._kinds: dict[str, Callable[[datetime], list[Message]]] = {
            "story": self._story,
            "photo": self._photo,
            "album": self._album,
            "document": self._document,
            "bare": self._bare,
            "forward": self._forward,
            "reply": self._reply,
            "poll": self._poll,
            "service": self._service,
            "short": self._short,
            "digest": self._digest,
        }

    def write(self, at: datetime) -> list[Message]:
        """The messages of one arrival: one, or those of an album."""
        return self._kinds[self.voice.draw_kind(self.rng)](at)

    def report(self, event: str, at: datetime) -> list[Message]:
        """A post about what everybody talks about."""
        story = self._wire.event(event, self.rng, self.channel.id, at)
        return [self._message(at, self.pen.tell(story), story=story)]

    def amended(self, message: Message) -> tuple[Written, File | None]:
        """What a message becomes when its author comes back to it."""
        limit = POST_LIMIT if message.file is None else CAPTION_LIMIT
        written = self.pen.amend(message.text, message.entities, limit)
        swap = message.file is not None and message.file.kind is Kind.PHOTO and self.rng.random() < 0.15
        return written, self._picture(pick(self.rng, self.pen.book.phrases["updates"])) if swap else None

    def _story(self, at: datetime) -> list[Message]:
        story = self._choose(at)
        return [self._message(at, self.pen.tell(story), story=story)]

    def _photo(self, at: datetime) -> list[Message]:
        story = self._choose(at)
        written = self.pen.tell(story, caption=True)
        return [self._message(at, written, self._picture(headline(story, self.voice.language, self.rng)), story)]

    def _bare(self, at: datetime) -> list[Message]:
        if self.rng.random() < 0.6:
            return [self._message(at, file=self._meme())]
        return [self._message(at, self.pen.caption(), self._meme())]

    def _album(self, at: datetime) -> list[Message]:
        story, dice = self._choose(at), self.rng.random()
        grouped_id = self.rng.getrandbits(54) + (1 << 54)
        line = headline(story, self.voice.language, self.rng)
        messages = []
        for number in range(album_size(self.rng)):
            # Three albums of four are photos only, some are documents only, some have both.
            paper = dice > 0.9 or (dice > 0.75 and number % 2 == 1)
            file = self._paper(line) if paper else self._picture(f"{number + 1}. {line}")
            written = self.pen.tell(story, caption=True) if number == 0 else ("", ())
            message = self._message(at, written, file, story if number == 0 else None)
            message.grouped_id = grouped_id
            messages.append(message)
        return messages

    def _document(self, at: datetime) -> list[Message]:
        story = self._choose(at)
        line = headline(story, self.voice.language, self.rng)
        return [self._message(at, self.pen.tell(story, caption=True), self._paper(line), story)]

    def _forward(self, at: datetime) -> list[Message]:
        posts = self._wire.posts
        if not posts:
            return self._story(at)
        origin, message_id = pick(self.rng, posts)
        source = origin.messages.get(message_id)
        if origin.id == self.channel.id or source is None:
            return self._story(at)
        forward = source.forward or Forward(origin.id, source.id, source.date, source.author)
        message = self._message(at, (source.text, source.entities), source.file)
        message.forward, message.story, message.author = forward, source.story, None
        return [message]

    def _reply(self, at: datetime) -> list[Message]:
        messages = self._short(at) if self.rng.random() < 0.3 else self._story(at)
        messages[0].reply_to = self._own_recent()
        return messages

    def _poll(self, at: datetime) -> list[Message]:
        question, answers = self.pen.poll()
        message = self._message(at)
        message.poll = Poll(self.rng.getrandbits(62), question, answers)
        return [message]

    def _service(self, at: datetime) -> list[Message]:
        pinned = self._own_recent()
        if pinned is not None and self.rng.random() < 0.6:
            return [Message(0, at, service=Service("pin"), reply_to=pinned)]
        if self.rng.random() < 0.5:
            return [Message(0, at, service=Service("title", self.channel.title))]
        return [Message(0, at, service=Service("photo"))]

    def _short(self, at: datetime) -> list[Message]:
        return [self._message(at, self.pen.short())]

    def _digest(self, at: datetime) -> list[Message]:
        stories = list(self._wire.stories)[-24:]
        if len(stories) < 4:
            return self._story(at)
        return [self._message(at, self.pen.digest(self.rng.sample(stories, self.rng.randint(4, len(stories)))))]

    def _message(
        self, at: datetime, written: Written = ("", ()), file: File | None = None, story: Story | None = None
    ) -> Message:
        author = pick(self.rng, self.voice.authors) if self.voice.authors else None
        text, entities = written
        return Message(0, at, text, entities, file, author=author, story=None if story is None else story.id)

    def _choose(self, at: datetime) -> Story:
        """A story that others have told lately, or a new one."""
        if self.rng.random() < self.voice.follows:
            since, own = at - STORY_LIFE, self.voice.topic
            known = [s for s in self._wire.stories if s.date > since and own in (s.topic, "news")]
            story = pick(self.rng, known) if known else None
            if story is not None and self.channel.id not in story.told_by:
                story.told_by.add(self.channel.id)
                return story
        topic = self.voice.topic if self.rng.random() < 0.9 else pick(self.rng, TOPICS)
        return self._wire.new_story(self.rng, topic, self.channel.id, at)

    def _own_recent(self) -> int | None:
        known = [i for i in self.recent if i in self.channel.messages]
        return pick(self.rng, known) if known else None

    def _picture(self, line: str) -> File:
        more = pick(self.rng, self.pen.book.more[self.voice.topic])
        return self._photo_file((line, more), pick(self.rng, ("card", "card", "chart", "screen")))

    def _meme(self) -> File:
        return self._photo_file(tuple(pick(self.rng, self.pen.book.phrases["memes"]).split("|")), "meme")

    def _photo_file(self, lines: tuple[str, ...], style: str) -> File:
        picture = plan_picture(self.rng, lines, style)
        return File(
            id=self.rng.getrandbits(62),
            access_hash=self.rng.getrandbits(62),
            kind=Kind.PHOTO,
            mime="image/jpeg",
            draw=picture,
            width=picture.width,
            height=picture.height,
            length=picture.length,
        )

    def _paper(self, line: str) -> File:
        book = self.pen.book
        paper = plan_paper(self.rng, line, book.more[self.voice.topic], self._wire.largest_document)
        name = f"{pick(self.rng, book.phrases['tables'])}_{self.rng.randrange(1, 400)}.{paper.kind}"
        return File(
            id=self.rng.getrandbits(62),
            access_hash=self.rng.getrandbits(62),
            kind=Kind.DOCUMENT,
            mime=MIMES[paper.kind],
            draw=paper,
            name=name,
            length=paper.length,
        )
