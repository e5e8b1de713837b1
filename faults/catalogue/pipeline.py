"""Faults of models, stages, events and indexes."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID, uuid4

from faults.catalogue.engines import locked, refusing
from faults.installation import Installation, stop_roles
from faults.models import Mode
from faults.trial import Break, Fault, Scope
from telegram_assistant.bus.streams import FIELD, encode
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.events import PostParsed
from telegram_assistant.domain.post import post_id
from telegram_assistant.names import POSTS_PARSED, stream

MODELS = "model|tagging|embed|indexing|openai"
MOST_ASKED = 4
USUAL_ID, ABSURD_ID = 987_654_321, 2**31 + 5


@asynccontextmanager
async def models_silent(lane: Installation) -> AsyncIterator[None]:
    lane.model_gate.silence()
    yield
    await lane.model_gate.open()


@asynccontextmanager
async def models_gone(lane: Installation) -> AsyncIterator[None]:
    await lane.model_gate.stop()
    yield
    await lane.model_gate.open()


def answering(mode: Mode) -> Break:
    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        lane.models.mode = mode
        yield
        lane.models.mode = "well"

    return broken


def index_deleted(name: str, *, running: bool) -> Break:
    """The folder of an index is gone."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        if not running:
            await stop_roles(lane.slots)
        shutil.rmtree(lane.data / name)
        if not running:
            for slot in lane.slots:
                await slot.start()
        yield

    return broken


@asynccontextmanager
async def vectors_exchanged(lane: Installation) -> AsyncIterator[None]:
    """A copy of this morning lies where the vectors were: whole and readable, and too old."""
    vectors, kept = lane.data / "vectors", lane.folder / "vectors.kept"
    await stop_roles(lane.slots)
    shutil.copytree(vectors, kept)
    for slot in lane.slots:
        await slot.start()
    for channel in lane.telegram.channels[:20]:
        lane.telegram.post(channel)
    await lane.indexed()
    await stop_roles(lane.slots)
    shutil.rmtree(vectors)
    shutil.move(kept, vectors)
    for slot in lane.slots:
        await slot.start()
    yield


def foreign(channel_id: int, message_id: int) -> PostParsed:
    """An event as another producer would write it."""
    now = datetime.now(UTC)
    return PostParsed(
        trace_id=uuid4().hex,
        occurred_at=now,
        idempotency_key=f"foreign:{uuid4().hex}",
        tenant_id=UUID(SYSTEM_TENANT),
        channel_id=channel_id,
        post_id=post_id(channel_id, message_id),
        version=1,
        telegram_message_id=message_id,
        telegram_post_url="https://t.me/faults_1/1",
        text="A stranger says that this was posted, with an id that no post has.",
        urls=(),
        posted_at=now,
        content_hash="0" * 64,
        has_media=False,
    )


@asynccontextmanager
async def absurd_id(lane: Installation) -> AsyncIterator[None]:
    event = encode([foreign(lane.telegram.channels[0].id, USUAL_ID)])  # our own program refuses to write the other
    absurd = event.replace(b'"telegram_message_id":%d' % USUAL_ID, b'"telegram_message_id":%d' % ABSURD_ID)
    if absurd == event:
        raise RuntimeError("the id stands elsewhere in an event")
    await lane.redis.xadd(stream(POSTS_PARSED), {FIELD: absurd})
    lane.telegram.post(lane.telegram.channels[0])
    yield


@asynccontextmanager
async def no_events(lane: Installation) -> AsyncIterator[None]:
    await lane.redis.xadd(stream(POSTS_PARSED), {"something": "else"})
    yield


async def buried(lane: Installation) -> str | None:
    """A dead letter of the last minutes."""
    rows = await lane.rows(
        "SELECT stage, reason FROM dead_letters WHERE created_at > now() - interval '5 minutes'"
        " ORDER BY id DESC LIMIT 1"
    )
    return f"dead letter of {rows[0].stage}: {rows[0].reason}" if rows else None


@asynccontextmanager
async def tags_lost(lane: Installation) -> AsyncIterator[None]:
    """Results of one stage are gone, and its events are not told again."""
    await lane.change(
        "WITH picked AS (SELECT id FROM posts WHERE deleted_at IS NULL ORDER BY random() LIMIT 5),"
        " steps AS (DELETE FROM post_steps WHERE stage = 'tag_persistence' AND post_id IN (SELECT id FROM picked))"
        " DELETE FROM post_enrichment WHERE kind = 'tags' AND post_id IN (SELECT id FROM picked)"
    )
    yield


async def asked_too_often(lane: Installation) -> str | None:
    """A text is paid for once, or a few times where an answer was lost."""
    most = max(lane.models.asked.values(), default=0)
    return f"the same text was sent to the model {most} times" if most > MOST_ASKED else None


@asynccontextmanager
async def model_counts_backwards(lane: Installation) -> AsyncIterator[None]:
    lane.models.asked.clear()
    lane.models.mode = "negative"
    yield
    lane.models.mode = "well"


FAULTS = (
    Fault(
        name="The model server counts a negative number of tokens",
        mark="N18",
        scope=Scope.NOTHING,
        broken=model_counts_backwards,
        lasts=60,
        proof=asked_too_often,
    ),
    Fault(name="The model server is gone", scope=Scope.STAGE, broken=models_gone, says=MODELS),
    Fault(name="The model server answers nothing", scope=Scope.STAGE, broken=models_silent, says=MODELS),
    Fault(
        name="The model server answers nonsense",
        mark="N19",
        scope=Scope.STAGE,
        broken=answering("garbage"),
        says=MODELS,
        lasts=30,
    ),
    Fault(
        name="The model server answers with empty vectors",
        mark="N19",
        scope=Scope.STAGE,
        broken=answering("zeros"),
        says=MODELS,
        lasts=30,
    ),
    Fault(
        name="A stage waits for ever",
        scope=Scope.STAGE,
        broken=locked("post_enrichment"),
        says="tag_persistence|stage|waits|behind",
    ),
    Fault(
        name="A stage fails with every event",
        scope=Scope.STAGE,
        broken=refusing("post_enrichment", "INSERT OR UPDATE"),
        says="persistence",
    ),
    Fault(name="Results of a stage are lost", mark="N13", scope=Scope.NOTHING, broken=tags_lost, lasts=5),
    Fault(
        name="The vectors are deleted while everything is stopped",
        mark="N14",
        scope=Scope.INDEX,
        broken=index_deleted("vectors", running=False),
        says="vector",
        indexes=True,
    ),
    Fault(
        name="The graph is deleted while everything is stopped",
        mark="N14",
        scope=Scope.INDEX,
        broken=index_deleted("graph", running=False),
        says="graph",
        indexes=True,
    ),
    Fault(
        name="The vectors are deleted while it runs",
        mark="N14",
        scope=Scope.INDEX,
        broken=index_deleted("vectors", running=True),
        says="vector",
        indexes=True,
    ),
    Fault(
        name="The graph is deleted while it runs",
        mark="N14",
        scope=Scope.INDEX,
        broken=index_deleted("graph", running=True),
        says="graph",
        indexes=True,
    ),
    Fault(
        name="The vectors are exchanged for an older copy",
        mark="N14",
        scope=Scope.INDEX,
        broken=vectors_exchanged,
        says="vector",
        indexes=True,
    ),
    Fault(
        name="A stranger tells of a post with the id 2³¹+5",
        mark="N15",
        scope=Scope.STAGE,
        broken=absurd_id,
        notice=buried,
    ),
    Fault(name="An entry has no events", mark="N16", scope=Scope.STAGE, broken=no_events, notice=buried),
)
