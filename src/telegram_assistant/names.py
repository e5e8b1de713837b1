"""The names that others rely on: streams, groups, Redis keys. They stand here and nowhere else."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

# Streams (SPEC 4): the event `posts.parsed` travels on `stream:posts:parsed`, and so on.
POSTS_PARSED = "posts.parsed"
ALBUMS_PARSED = "albums.parsed"
POSTS_DELETED = "posts.deleted"
MEDIA_SETTLED = "media.settled"
POSTS_VISION_ANALYZED = "posts.vision.analyzed"
POSTS_TAGGED = "posts.tagged"
POSTS_RETAG = "posts.retag"
POSTS_CRAWL = "posts.crawl"
POSTS_ENRICHED = "posts.enriched"
POSTS_INDEXED = "posts.indexed"
ALBUM_ASSEMBLED = "album.assembled"

# Stages (SPEC 4): each is the name of a consumer group too.
TELETHON_INGEST = "telethon-ingest"
POST_PERSISTENCE = "post_persistence"
VISION_ANALYSIS = "vision_analysis"
RETAGGING = "retagging"
TAGGING = "tagging"
TAG_PERSISTENCE = "tag_persistence"
CRAWL_TRIGGER = "crawl_trigger"
ENRICHMENT = "enrichment"
INDEXING = "indexing"
ALBUM_ASSEMBLER = "album_assembler"
RECONCILER = "reconciler"  # no stage: it tells of posts again, which is a step of their way

SCHEDULER_LOCK = "scheduler:lock"
SCHEDULER_LAST_TICK = "scheduler:last_tick"  # ISO datetime of the last tick, for health in every process
POLLING_PRICE = "polling:price"  # JSON: what a request is worth, and what is left of the budget
ENGINE_PROBE = "health:probe"  # written to see whether Redis takes writes
AUDITS_ASKED = "audits:asked"  # a list of JSON: audits that a command waits for
FOLLOWS_ASKED = "follows:asked"  # a list of JSON: what the accounts follow, which a page waits for
POLLING_LOOKS = "polling:looks"  # visits of all processes, ever
REDIS_MARK = "mark"  # a hash that PostgreSQL knows too: without it this Redis has lost what it held


_OF_CHANNEL = re.compile(
    r"(?:parse_hwm|interarrival_stats|low_watermark|lock:backfill|backfill_job):(\d{1,19})(?::.*)?", re.ASCII
)


def stream(event: str) -> str:
    return "stream:" + event.replace(".", ":")


def parse_hwm(channel_id: int) -> str:
    return f"parse_hwm:{channel_id}"


def interarrival_stats(channel_id: int) -> str:
    return f"interarrival_stats:{channel_id}"


def low_watermark(channel_id: int) -> str:
    return f"low_watermark:{channel_id}"


def ingest_alive(owner: str) -> str:
    """A sign of life of one ingest process, so that what it locked is not waited for after its death."""
    return f"ingest:alive:{owner}"


def follows_answer(token: str) -> str:
    return f"follows:answer:{token}"


def audit_answer(token: str) -> str:
    return f"audits:answer:{token}"


def backfill_lock(channel_id: int) -> str:
    return f"lock:backfill:{channel_id}"


def backfill_job(channel_id: int, window_start: datetime) -> str:
    return f"backfill_job:{channel_id}:{window_start.isoformat()}"


def waiting(stage: str) -> str:
    """Events that a stage will try again: a sorted set by the time they are due; their content is in a hash."""
    return f"waiting:{stage}"


def waiting_events(stage: str) -> str:
    return f"waiting:{stage}:events"


def waiting_taken(stage: str) -> str:
    """How often each was taken up, so that one that ends its process is found out."""
    return f"waiting:{stage}:taken"


def album_state(album_id: UUID) -> str:
    return f"album:{album_id}"


def channel_in_key(key: str) -> int | None:
    """Which channel a key is about."""
    found = _OF_CHANNEL.fullmatch(key)
    return None if found is None else int(found[1])


def rate_limit(key: str) -> str:
    return f"limit:{key}"


ALBUM_DEADLINES = "albums:deadlines"
REEMBED_LOCK = "lock:reembed"
ALERTS_LOCK = "lock:alerts"
ALERTING_LOCK = "lock:alerting"
JOBS_LOCK = "lock:jobs"


def alerts_told(tenant_id: UUID) -> str:
    """Where it is published that a saved search of a tenant has found something."""
    return f"alerts:{tenant_id}"
