"""A digest of the demo world: every sentence has a source that says it, and hardly a story comes twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.domain.digests import MOST_STORIES, Wish
from telegram_assistant.domain.post import post_id
from telegram_assistant.jobs.digest_writing import Evidence
from telegram_assistant.jobs.digests import DigestMaker
from telegram_assistant.language.inflection import Inflection
from telegram_simulator.generate import demo_world
from telegram_simulator.model import Message
from tests.integration.search.archive import POSTED, SYSTEM, Archive

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported


async def put_world(archive: Archive) -> dict[UUID, Message]:
    """As capture and indexing would; `POSTED` is its now."""
    found: dict[UUID, Message] = {}
    for channel in demo_world(now=POSTED).channels.values():
        if channel.group:
            continue
        await archive.channel(channel.id, channel.username or channel.title, SYSTEM)
        for message in channel.messages.values():
            if message.service is None:
                found[post_id(channel.id, message.id)] = message
                await archive.run(
                    "INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash, views, forwards)"
                    " VALUES (:id, :channel, :number, :at, :text, 'h', :views, :forwards)",
                    id=post_id(channel.id, message.id),
                    channel=channel.id,
                    number=message.id,
                    at=message.date,
                    text=message.text,
                    views=message.counters.views,
                    forwards=message.counters.forwards,
                )
                source = archive.source(message.id, message.text, channel=channel.id, posted_at=message.date)
                await archive.index(source)
    return found


async def test_every_sentence_has_a_source(town: Town, desk: DigestMaker) -> None:
    messages = await put_world(town.archive)
    evidence = Evidence(Inflection())
    sentences = sources = again = 0
    for day in range(3):
        until = POSTED - timedelta(days=day)
        since = until - timedelta(days=1)
        person = town.member
        content = await desk.build(person.tenant_id, person.user_id, Wish(name="x", most=MOST_STORIES), since, until)
        told: Counter[int | None] = Counter()
        for story in content.stories:
            told.update({messages[story.posts[0]].story: 1})
            for sentence in story.sentences:
                sentences += 1
                assert sentence.sources
                for number in sentence.sources:
                    sources += 1
                    cited = content.cited[number]
                    assert cited.post_id in story.posts
                    assert evidence.holds(sentence.text, messages[cited.post_id].text), sentence
                    assert since <= cited.posted_at < until
        again += sum(n - 1 for story, n in told.items() if story is not None)
        coverage = content.coverage
        assert coverage.stories == coverage.told + coverage.over_limit + coverage.wordless
        assert coverage.fitting == coverage.posts
    print(f"{len(messages)} posts, {sentences} sentences, {sources} sources that say it, {again} stories twice")  # noqa: T201 - figures
    assert sentences > 60
    assert again <= 0.03 * sentences, "whoever tells it in quite other words is not recognised"
