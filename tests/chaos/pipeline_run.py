"""A run of the whole pipeline: an ingest process, two workers that share one data folder, and everything that hurts."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from redis.exceptions import RedisError

from telegram_assistant.bus.supervisor import heed_stop
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.embedded.postgres import EmbeddedPostgres
from telegram_assistant.embedded.valkey import EmbeddedValkey
from telegram_assistant.stores.postgres.database import open_database
from telegram_assistant.stores.postgres.migrate import migrate
from telegram_assistant.stores.redis import open_redis
from telegram_assistant.wiring.demo import PAGES_KEY
from telegram_simulator.archive import Archive
from telegram_simulator.generate import build_world
from telegram_simulator.life import Life
from telegram_simulator.model import Channel, Message
from telegram_simulator.pages import HOST, Pages, free_port
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.chaos.conftest import SECRET, Engines, Plan, Run, Slot
from tests.chaos.poison import Dose, pour
from tests.chaos.provider import Provider

COMMAND_SECONDS = 300.0
HISTORY = timedelta(days=1)  # before the run


@dataclass(frozen=True, kw_only=True)
class PipelinePlan(Plan):
    """And how much is put on top of the kills."""

    seen: int  # channels whose pictures are looked at: reading one takes longer than all the rest of a post
    poisons: int
    changes: int  # edits and deletions, beside those of the world itself
    outage: tuple[float, float]  # seconds for which the provider is away


@dataclass(kw_only=True)
class PipelineRun(Run):
    """The world, its pages and the provider live in the test; what is killed are processes and engines."""

    plan: PipelinePlan
    data: DataFolder
    provider: Provider
    archive: Archive
    link_host: str
    outages: int = 0
    doses: list[Dose] = field(default_factory=list)
    forgotten: list[Dose] = field(default_factory=list)  # went with an emptied Redis, read or not
    changed: int = 0

    @property
    def workers(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.command == "worker"]

    @property
    def life(self) -> Life:
        """Half as many posts again, always behind the real time."""
        speed = 0.6 * self.plan.lived.total_seconds() / self.plan.seconds
        rate = self.plan.channels * self.plan.posts / 2 / (self.plan.lived / timedelta(hours=1))
        return Life(
            self.world,
            seed=self.plan.seed,
            speed=speed,
            rate=rate,
            link_host=self.link_host,
            archive=self.archive,
        )

    def troubles(self) -> list[asyncio.Future[None]]:
        """Everything that happens beside the kills, begun."""
        works = (self.life.run(), self.shake_provider(), self.poison(), self.meddle())
        return [asyncio.ensure_future(work) for work in works]

    async def kill_at_random(self) -> None:
        """Workers most often; each engine, gently and not, and ingest now and then. Between them Redis is emptied, and
        the indexes are deleted."""
        engines = [("valkey", signal.SIGKILL), ("postgres", signal.SIGINT)]
        engines += [("postgres", signal.SIGKILL), ("valkey", signal.SIGTERM)]
        hits: list[tuple[str, signal.Signals | None]] = []
        hits += (engines * self.plan.kills)[: max(2, self.plan.kills // 4)]
        rest = self.plan.kills - len(hits)
        hits += [("ingest", signal.SIGKILL)] * (rest // 4) + [("worker", signal.SIGKILL)] * (rest - rest // 4)
        losses: list[tuple[str, signal.Signals | None]] = [("redis", None), ("indexes", None)]
        hits += losses * max(1, self.plan.kills // 12)
        self.random.shuffle(hits)
        for name, with_signal in hits:
            await asyncio.sleep(self.random.uniform(*self.plan.pause))
            if with_signal is None:
                await (self.empty_redis() if name == "redis" else self.delete_indexes())
                self.kills[f"{name} lost"] += 1
                continue
            if name in {"postgres", "valkey"}:
                await self.engines.restart(name, with_signal)
            else:
                await self.random.choice([slot for slot in self.slots if slot.command == name]).kill()
            self.kills[f"{name} {with_signal.name}"] += 1

    async def empty_redis(self) -> None:
        for _ in range(100):
            with suppress(OSError, RedisError):  # it is being started
                await self.redis.flushall()
                break
            await asyncio.sleep(0.2)
        self.forgotten += self.doses
        self.doses.clear()

    async def delete_indexes(self) -> None:
        """While no worker runs; each is started again by itself."""
        for slot in self.workers:
            await slot.kill()
        for slot in self.workers:
            if slot.process is not None:
                await slot.process.wait()
        for name in ("vectors", "graph"):
            gone = self.data.path / f"{name}-{len(list(self.data.path.iterdir()))}"
            with suppress(FileNotFoundError):  # deleted before, and not made anew yet
                (self.data.path / name).rename(gone)
                shutil.rmtree(gone)

    async def shake_provider(self) -> None:
        """Away for a while, again and again; the first time soon."""
        choice = random.Random(f"{self.plan.seed}/provider")
        pause = self.plan.outage[0]
        while True:
            await asyncio.sleep(pause)
            await self.provider.fall()
            self.outages += 1
            await asyncio.sleep(choice.uniform(*self.plan.outage))
            await self.provider.rise()
            pause = choice.uniform(1, 3) * self.plan.outage[1]

    async def poison(self) -> None:
        choice = random.Random(f"{self.plan.seed}/poison")
        while True:
            await asyncio.sleep(self.plan.seconds / self.plan.poisons)
            with suppress(OSError, RedisError):  # the engine is away just now
                self.doses.append(await pour(self.redis, choice))
            heed_stop()

    async def meddle(self) -> None:
        """Edit and delete posts, old and new; none so old that only its push could tell of it."""
        choice = random.Random(f"{self.plan.seed}/changes")
        since = datetime.now(UTC) - self.plan.lived - HISTORY
        for number in count(1):
            await asyncio.sleep(self.plan.seconds / self.plan.changes)
            channel, message = choice.choice(
                [(channel, one) for channel in self.watched for one in recent(channel, since)]
            )
            self.changed += 1
            if choice.random() < 0.4:
                self.world.delete(channel, [message.id])
            else:
                words = f"{message.text} Обновление номер {number}, подробности позже.".lstrip()
                self.world.edit(channel, message.id, words, entities=message.entities)

    async def tga(self, *command: str) -> str:
        """Run a command to its end; what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "telegram_assistant", *command),
            env=self.slots[0].environment,
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(COMMAND_SECONDS):
            printed, _ = await process.communicate()
        assert process.returncode == 0, printed.decode()
        return printed.decode()

    async def stop(self) -> None:
        """Every process, as a service manager does it; the indexes can be read then."""
        for slot in self.slots:
            slot.retired = True
            if slot.process is not None and slot.process.returncode is None:
                slot.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(COMMAND_SECONDS):
            await asyncio.gather(*(slot.process.wait() for slot in self.slots if slot.process is not None))


def recent(channel: Channel, since: datetime) -> list[Message]:
    return [message for message in channel.messages.values() if message.date > since and message.service is None]


def make_world(plan: PipelinePlan, link_host: str) -> World:
    """It begins in the past and lives faster. Its history has words only: pictures come with its life."""
    now = datetime.now(UTC) - plan.lived
    world = build_world(
        seed=plan.seed,
        channels=plan.channels,
        posts=plan.posts,
        spread=0.8,
        private_share=0,
        now=now,
        days=HISTORY / timedelta(days=1),
        link_host=link_host,
        ids=plan.ids,
    )
    for channel in world.channels.values():
        for message in channel.messages.values():
            message.file = message.grouped_id = None
    return world


def settings_of(plan: PipelinePlan, folder: Path, world: World, provider: Provider) -> dict[str, str]:
    names = sorted(channel.username for channel in world.channels.values() if channel.username)
    policy = folder / "vision.toml"
    skipped = ", ".join(f'"@{name}"' for name in names[plan.seen :])
    policy.write_text(f"[pictures]\nskip_channels = [{skipped}]\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    return {
        **kept,
        "TGA_DATA_DIR": str(folder / "data"),
        "TGA_SECRET_KEY": SECRET,
        "TELEGRAM_PACING_ENABLED": "false",
        "PARSER_SCHEDULER_INTERVAL_SEC": "5",
        "POLLING_BOUND_SEC": "15",
        "INGEST_LEASE_SEC": "8",
        "WORKER_LEASE_SEC": "4",
        "INGEST_HEALTH_PORT": "0",
        "PREVIEW_HOSTS": "",  # a test never reaches the real Telegram
        "WORKER_HEALTH_PORT": "0",
        "MEDIA_RETRY_MAX": "20",
        "AI_TAG_PROVIDER": "openai",
        "OPENAI_BASE_URL": provider.url,
        "AI_TIMEOUT_SEC": "5",
        "VISION_POLICY_FILE": str(policy),
        "CRAWL_PER_TENANT_DAY": "100000",
        "CRAWL_PER_DOMAIN_HOUR": "100000",
    }


async def start_run(plan: PipelinePlan, folder: Path, stack: AsyncExitStack) -> PipelineRun:
    data = DataFolder(folder / "data")
    data.open()
    stack.callback(data.close)
    engines = Engines(data, EmbeddedPostgres(data), EmbeddedValkey(data))
    for engine in (engines.postgres, engines.valkey):
        await engine.start()
        stack.push_async_callback(engine.stop)
    database, redis = open_database(engines.postgres.url), open_redis(engines.valkey.url)
    stack.push_async_callback(database.dispose)
    stack.push_async_callback(redis.aclose)
    await migrate(database)
    archive, port = Archive(), free_port()
    link_host = f"http://{HOST}:{port}"
    world = make_world(plan, link_host)
    await stack.enter_async_context(Pages(world, archive, link_host=link_host, port=port))
    sim = await stack.enter_async_context(Simulator(world))
    provider = Provider(plan.seed)
    await provider.rise()
    stack.push_async_callback(provider.close)
    data.announce(Running(engines.postgres.url, engines.valkey.url, _telegram(sim, folder, port)))
    environment = settings_of(plan, folder, world, provider)
    commands = {"capture": "ingest", "first": "worker", "second": "worker"}
    return PipelineRun(
        plan=plan,
        world=world,
        sim=sim,
        engines=engines,
        database=database,
        redis=redis,
        slots=[Slot(name, environment, folder, command) for name, command in commands.items()],
        folder=folder,
        random=random.Random(plan.seed),
        data=data,
        provider=provider,
        archive=archive,
        link_host=link_host,
    )


def _telegram(sim: Simulator, folder: Path, port: int) -> dict[str, str]:
    """The processes join a demo that the test itself is: so the pages of its world may be read, and no others."""
    key = folder / "key.pem"
    key.write_text(sim.public_key_pem, encoding="ascii")
    return {
        "telegram_api_id": "1",
        "telegram_api_hash": "demo",
        "telegram_session": sim.session(),
        "telegram_server": sim.address,
        "telegram_rsa_key": str(key),
        PAGES_KEY: f"{HOST}:{port}",
    }
