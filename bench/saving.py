"""What saving costs: `Saver.save` of pages, beside plain COPY of the same rows into tables with the same indexes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from bench.engines import started_engines
from bench.figure import Figure
from bench.telegram import MOMENT, Served, served_world
from bench.twins import Twins
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaRules, decide
from telegram_assistant.domain.post import Post
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_assistant.wiring.roles import collect_garbage_less

SIZES = (100, 500)  # one page of Telegram, and as many as are saved together when there is much to read
POSTS = 1500  # of each of four channels
REPETITIONS = 6


async def read_posts(served: Served) -> list[list[Post]]:
    """All posts of each channel, as the source gives them."""
    found = []
    async with TelegramAccount(served.client(), "bench") as source:
        for peer in served.peers:
            posts: list[Post] = []
            reached_end = False
            while not reached_end:
                page = await source.channel(peer).page_after(posts[-1].message_id if posts else 0)
                posts += page.posts
                reached_end = page.reached_end
            found.append(posts)
    return found


def readings(channels: Sequence[Sequence[Post]], size: int) -> list[Reading]:
    return [_reading(posts, start, size) for posts in channels for start in range(0, len(posts), size)]


def _reading(posts: Sequence[Post], start: int, size: int) -> Reading:
    page = posts[start : start + size]
    last = page[-1].message_id
    return Reading(
        channel_id=page[0].channel_id,
        posts=page,
        proven=Coverage.of_spans((posts[start - 1].message_id + 1 if start else 1, last + 1)),
        newest_id=last,
        cursor_id=last,
        reached_end=start + size >= len(posts),
    )


async def save(saver: Saver, pages: Sequence[Reading]) -> float:
    """Seconds for all of them."""
    began = time.perf_counter()
    for page in pages:
        await saver.save(page)
    return time.perf_counter() - began


async def _measure() -> list[Figure]:
    async with started_engines() as engines:
        async with served_world(channels=4, posts=POSTS) as served:
            channels = await read_posts(served)
        await engines.add_channels(served.channels)
        saver = Saver(engines.database, clock=lambda: MOMENT, decide_media=partial(decide, rules=MediaRules()))
        twins = Twins(engines)
        collect_garbage_less()
        saving: dict[int, list[float]] = {size: [] for size in SIZES}
        copying: dict[tuple[int, bool], list[float]] = {(size, keys): [] for size in SIZES for keys in (True, False)}
        for _ in range(REPETITIONS):  # in turn, so that a busy moment of the machine hits all
            for size in SIZES:
                await engines.forget_posts()
                saving[size].append(await save(saver, readings(channels, size)))
                for keys in (True, False):
                    copying[size, keys].append(await twins.copy(size, keys=keys))
    count = sum(len(posts) for posts in channels)
    return [
        Figure(
            f"saving_pages_of_{size}{'' if keys else '_without_foreign_keys'}",
            *(count / min(saving[size]), "posts/s", count / min(copying[size, keys])),
        )
        for size in SIZES
        for keys in (True, False)
    ]


def run() -> list[Figure]:
    """Posts per second from posts in memory to committed rows, at least 0.6 of COPY into the same tables.

    Beside it the same without foreign keys, which PostgreSQL checks row by row for every writer: a table of a log.
    """
    return asyncio.run(_measure())
