"""Faults of Valkey (the Redis of one machine)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from faults.installation import Installation
from faults.trial import Break, Fault, Scope

ENGINE = "redis|valkey"


@asynccontextmanager
async def stopped(lane: Installation) -> AsyncIterator[None]:
    (pid,) = lane.engines.pids("valkey")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def killed(lane: Installation) -> AsyncIterator[None]:
    os.kill(lane.engines.pids("valkey")[0], signal.SIGKILL)
    yield


@asynccontextmanager
async def rewritten_and_killed(lane: Installation) -> AsyncIterator[None]:
    """After that Redis 7.0 tells a wrong lag of its groups."""
    await lane.redis.bgrewriteaof()
    await asyncio.sleep(3)
    os.kill(lane.engines.pids("valkey")[0], signal.SIGKILL)
    yield


@asynccontextmanager
async def emptied(lane: Installation) -> AsyncIterator[None]:
    await lane.redis.flushall()
    yield


@asynccontextmanager
async def emptied_while_posts_wait(lane: Installation) -> AsyncIterator[None]:
    """The models are away, posts wait for them in Valkey, and it loses everything."""
    await lane.model_gate.stop()
    for channel in lane.telegram.channels[:20]:
        lane.telegram.post(channel)
    await asyncio.sleep(20)
    await lane.redis.flushall()
    yield
    await lane.model_gate.open()


@asynccontextmanager
async def out_of_memory(lane: Installation) -> AsyncIterator[None]:
    await lane.redis.config_set("maxmemory", 1)
    yield
    await lane.redis.config_set("maxmemory", 0)


@asynccontextmanager
async def cannot_save(lane: Installation) -> AsyncIterator[None]:
    """MISCONF: a snapshot failed, so Valkey takes no writes until one succeeds."""
    in_the_way = lane.folder / "engines" / "valkey" / "dump.rdb" / "not empty"
    in_the_way.mkdir(parents=True)
    await lane.redis.config_set("save", "3600 1")
    await lane.redis.bgsave()
    yield
    in_the_way.rmdir()
    in_the_way.parent.rmdir()
    await lane.redis.bgsave()
    await asyncio.sleep(2)
    await lane.redis.config_set("save", "")


@asynccontextmanager
async def replica(lane: Installation) -> AsyncIterator[None]:
    """After a failover the address leads to a replica."""
    await lane.redis.replicaof("127.0.0.1", 1)
    yield
    await lane.redis.replicaof("NO", "ONE")


def with_key(key: str, action: str) -> Break:
    """A person deletes a stream, or puts something else in its place."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        await lane.redis.delete(key)
        if action == "replace":
            await lane.redis.set(key, "a text")
        yield
        if action == "replace":
            await lane.redis.delete(key)

    return broken


@asynccontextmanager
async def group_destroyed(lane: Installation) -> AsyncIterator[None]:
    for channel in lane.telegram.channels[:10]:
        lane.telegram.post(channel)
    try:
        await lane.redis.xgroup_destroy("stream:posts:parsed", "tagging")
    except RedisError as exc:
        raise RuntimeError(f"the group was not there: {exc}") from exc
    yield


FAULTS = (
    Fault(name="Valkey is stopped", scope=Scope.SYSTEM, broken=stopped, says=ENGINE, quick=True),
    Fault(name="Valkey has no memory left", mark="N4", scope=Scope.SYSTEM, broken=out_of_memory, says=ENGINE),
    Fault(
        name="Valkey cannot save, and takes no writes", mark="N4", scope=Scope.SYSTEM, broken=cannot_save, says=ENGINE
    ),
    Fault(name="Valkey is a read-only replica", scope=Scope.SYSTEM, broken=replica, says=ENGINE),
    Fault(name="Valkey is killed", scope=Scope.NOTHING, broken=killed, lasts=5),
    Fault(
        name="Valkey rewrites its file and is killed",
        mark="N29",
        scope=Scope.NOTHING,
        broken=rewritten_and_killed,
        lasts=5,
    ),
    Fault(name="Valkey is emptied", mark="N12", scope=Scope.NOTHING, broken=emptied, lasts=5, quick=True),
    Fault(
        name="Valkey is emptied while posts wait for a model",
        mark="N12",
        scope=Scope.NOTHING,
        broken=emptied_while_posts_wait,
        lasts=5,
    ),
    Fault(
        name="The stream of new posts is deleted",
        scope=Scope.NOTHING,
        broken=with_key("stream:posts:parsed", "delete"),
        lasts=5,
    ),
    Fault(
        name="Something else lies where a stream should be",
        scope=Scope.STAGE,
        broken=with_key("stream:posts:tagged", "replace"),
        says="tagging|stream|WRONGTYPE",
    ),
    Fault(name="A consumer group is destroyed", scope=Scope.NOTHING, broken=group_destroyed, lasts=5),
)
