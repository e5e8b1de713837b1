"""The names that others rely on: streams, groups, Redis keys. They stand here and nowhere else."""

from __future__ import annotations

from datetime import datetime

# Streams (SPEC 4): the event `posts.parsed` travels on `stream:posts:parsed`, and so on.
POSTS_PARSED = "posts.parsed"
ALBUMS_PARSED = "albums.parsed"
POSTS_DELETED = "posts.deleted"

SCHEDULER_LOCK = "scheduler:lock"
SCHEDULER_LAST_TICK = "scheduler:last_tick"  # ISO datetime of the last tick, for health in every process


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


def backfill_lock(channel_id: int) -> str:
    return f"lock:backfill:{channel_id}"


def backfill_job(channel_id: int, window_start: datetime) -> str:
    return f"backfill_job:{channel_id}:{window_start.isoformat()}"
