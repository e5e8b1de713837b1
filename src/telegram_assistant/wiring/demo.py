"""The demo as part of a running system: started by `tga up`, joined by the other roles and commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.errors import Fatal
from telegram_assistant.jobs import TRENDS
from telegram_assistant.language.documents import WORDS_ONLY
from telegram_assistant.log import get_logger
from telegram_assistant.services.demo import DEMO, DemoChannels
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.stores.postgres.trends import Trends
from telegram_assistant.stores.postgres.upkeep import Upkeep
from telegram_assistant.stores.postgres.watched_channels import Requests
from telegram_assistant.wiring.runtime import Runtime
from telegram_simulator.archive import Archive
from telegram_simulator.generate import DEMO_EDITION, DEMO_MESSAGES, demo_world
from telegram_simulator.life import Life
from telegram_simulator.pages import HOST, Pages, free_port
from telegram_simulator.server import Simulator
from telegram_simulator.texts import LINK_HOST


async def start_demo(runtime: Runtime) -> None:
    """No account is configured: a Telegram of our own, and its channels asked for as a person would."""
    settings = runtime.settings
    demo = await make_demo(
        runtime.folder.path / "simulator",
        clock=runtime.clock,
        pages_port=settings.tga_demo_pages_port,
        posts=settings.tga_demo_posts,
    )
    await runtime.start_task("simulator", demo.run)
    telegram = demo.telegram()
    runtime.crawl_allowed = frozenset({demo.pages_address} if demo.pages_address else ())
    runtime.settings = with_telegram(runtime.settings, telegram)
    runtime.folder.announce(replace(runtime.running, telegram=telegram))
    await ask_for_channels(runtime.database, demo.usernames)
    visitor = Visitor(runtime.database, demo.usernames, clock=runtime.clock)
    await runtime.start_task("demo_visitor", visitor.run)


async def ask_for_channels(database: AsyncEngine, usernames: Sequence[str]) -> None:
    """Each is asked for once: what was removed or put away does not come back with the next start."""
    requests = Requests(database)
    async with Upkeep(database).turn(DEMO, DemoChannels, every=timedelta(0)) as turn:
        if turn is None:
            return
        asked = turn.state.asked
        turn.state.asked = [f"@{username.lower()}" for username in usernames]
        for reference in turn.state.asked:
            if reference not in asked and await requests.get(UUID(SYSTEM_TENANT), reference) is None:
                await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), reference)


async def join_demo(runtime: Runtime) -> None:
    """Read from the simulated Telegram of the `tga up` that runs on this data folder."""
    telegram = runtime.running.telegram
    if telegram is None:
        raise Fatal(
            "No Telegram account is configured: set TELEGRAM_API_ID and TELEGRAM_API_HASH, or start tga up for a demo"
        )
    pages = pages_in(telegram)
    runtime.crawl_allowed = frozenset({pages} if pages else ())
    runtime.settings = with_telegram(runtime.settings, telegram)


API_ID = "1"
POSTS_PER_HOUR = 180.0  # of all channels together: something new every twenty seconds
GROWTH = timedelta(minutes=10)
PAGES_PORT = 8012  # where it is free
PAGES_KEY = "demo_pages"  # beside the settings in what `Demo.telegram` announces

T = TypeVar("T")
log = get_logger(__name__)


class Demo:
    """Simulator, life and pages of the demo world, as one supervised job.

    `pages_port` and `posts`, the number that each channel begins with, matter at its birth only.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Callable[[], datetime],
        pages_port: int = PAGES_PORT,
        posts: int = DEMO_MESSAGES,
    ) -> None:
        self._home = home
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        born, port, edition, posts = _birth(home, clock, pages_port, posts)
        archive = Archive()
        host = LINK_HOST if port is None else f"http://{HOST}:{port}"
        self.world = demo_world(now=born, link_host=host, archive=archive, edition=edition, messages=posts)
        self._life = Life(self.world, seed=1, rate=POSTS_PER_HOUR, growth=GROWTH, link_host=host, archive=archive)
        self._life.step(clock())
        self._simulator = Simulator(self.world, state_path=home / "sessions.json")
        self._pages = None if port is None else Pages(self.world, archive, link_host=host, port=port)
        self._pages_open = False

    async def run(self, task: Task) -> None:
        async with self._simulator, self._open_pages():
            task.ready()
            await self._life.run()

    def telegram(self) -> dict[str, str]:
        """The settings that lead to the simulator, and where the pages are; call it when the job is ready."""
        key = self._home / "key.pem"
        key.write_text(self._simulator.public_key_pem, encoding="ascii")
        pages = self.pages_address
        return {
            "telegram_api_id": API_ID,
            "telegram_api_hash": "demo",
            "telegram_session": self._simulator.session(),
            "telegram_server": self._simulator.address,
            "telegram_rsa_key": str(key),
            **({} if pages is None else {PAGES_KEY: f"{pages[0]}:{pages[1]}"}),
        }

    @property
    def pages_address(self) -> tuple[str, int] | None:
        """Where the pages are served now. None: nowhere, and what else listens there must not be read."""
        return (HOST, self._pages.port) if self._pages is not None and self._pages_open else None

    @property
    def usernames(self) -> list[str]:
        """The channels that a visitor is shown around in."""
        return [channel.username for channel in self.world.channels.values() if channel.username and not channel.group]

    @asynccontextmanager
    async def _open_pages(self) -> AsyncIterator[None]:
        """Without its pages the demo is poorer, but it works."""
        if self._pages is None:
            yield
            return
        try:
            await self._pages.start()
        except OSError as exc:
            log.warning(
                "demo_without_pages",
                address=f"{HOST}:{self._pages.port}",
                error=str(exc),
                todo="stop what uses that port and start again, or set TGA_DATA_DIR to an empty folder for a new demo",
            )
            yield
            return
        self._pages_open = True
        try:
            yield
        finally:
            self._pages_open = False
            await self._pages.stop()


def pages_in(telegram: dict[str, str]) -> tuple[str, int] | None:
    """Where the pages are of a demo that announced this."""
    host, _, port = telegram.get(PAGES_KEY, "").rpartition(":")
    return (host, int(port)) if host else None


def with_telegram(settings: Settings, telegram: dict[str, str]) -> Settings:
    """The same settings, pointed at the simulator."""
    return Settings.model_validate({**settings.model_dump(), **telegram})


async def make_demo(home: Path, *, clock: Callable[[], datetime], pages_port: int, posts: int) -> Demo:
    """In a thread: making a world takes a second, and the health page should answer meanwhile."""
    return await asyncio.to_thread(lambda: Demo(home, clock=clock, pages_port=pages_port, posts=posts))


def _birth(
    home: Path, clock: Callable[[], datetime], pages_port: int, posts: int
) -> tuple[datetime, int | None, int, int]:
    """The moment of birth, the port of the pages, the edition and the posts of a channel, from the first start on.

    No port: it is older than pages are. No edition: it is of the first. No number of posts: the usual one.
    """
    born_path, port_path, edition_path = home / "born.json", home / "pages.json", home / "edition.json"
    posts_path = home / "posts.json"
    born, port, edition = _remembered(born_path, datetime), _remembered(port_path, int), _remembered(edition_path, int)
    if born is None:
        _remember(posts_path, posts)
        # The moment last: after a kill in between this is still a new world with pages.
        if edition is None:
            edition = DEMO_EDITION
            _remember(edition_path, edition)
        if port is None:
            port = free_port(pages_port)
            _remember(port_path, port)
        born = clock().replace(microsecond=0)
        _remember(born_path, born)
    return born, port, edition or 1, _remembered(posts_path, int) or DEMO_MESSAGES


def _remembered(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None


def _remember(path: Path, value: object) -> None:
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(value))
    draft.replace(path)


EVERY = 2.0  # seconds between two looks at how far it is
PATIENCE = timedelta(minutes=10)  # a post that is never indexed does not keep the visitor for ever
KEPT = timedelta(days=365)

_ON_ITS_WAY = """
SELECT EXISTS (SELECT 1 FROM posts p LEFT JOIN search_documents d ON d.post_id = p.id
WHERE p.posted_at < :before AND p.deleted_at IS NULL AND coalesce(d.version, :words_only) = :words_only)
"""


class Visitor:
    """A supervised job that has nothing more to do after the first minutes. Every step may be repeated."""

    def __init__(self, database: AsyncEngine, usernames: Sequence[str], *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._usernames = usernames
        self._clock = clock
        self._came = clock()
        self._channels = Channels(database)
        self._asked: set[int] = set()

    async def run(self, task: Task) -> None:
        task.ready()
        while not await self.step():
            task.progress()
            await asyncio.sleep(EVERY)
        await asyncio.get_running_loop().create_future()  # a job that ends counts as failed

    async def step(self) -> bool:
        """Do what can be done now; whether all is done."""
        waited = self._clock() - self._came > PATIENCE
        if not waited and not (await self._history_is_there() and await self._all_is_indexed()):
            return False
        await self._ask_for_trends()
        return True

    async def _history_is_there(self) -> bool:
        """As `tga backfill @name --all`, after the first visit of each."""
        there = True
        for username in self._usernames:
            channel = await self._channels.by_username(username)
            if channel is None or channel.requested_from is None:
                there = False
            elif channel.status == "active" and channel.requested_from > 1 and channel.id not in self._asked:
                self._asked.add(channel.id)
                await self._channels.ask_history(channel.id, None)
                there = False
        return there and not await self._channels.with_holes(limit=1)

    async def _all_is_indexed(self) -> bool:
        values = {"before": self._came, "words_only": WORDS_ONLY}
        async with self._database.connect() as connection:
            return not (await connection.execute(text(_ON_ITS_WAY), values)).scalar_one()

    async def _ask_for_trends(self) -> None:
        """As `tga jobs run trends`, where none were found yet."""
        now = self._clock()
        found = await Trends(self._database).page(UUID(SYSTEM_TENANT), since=now - KEPT, before=now, limit=1)
        if not found:
            await JobRuns(self._database).ask(TRENDS, now)
            log.info("demo_asked_for_trends", after_seconds=round((now - self._came).total_seconds()))
