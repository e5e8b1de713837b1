"""The API and the pages over an archive, with callers of two tenants: real tables, keys and sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.datastructures import State

from telegram_assistant.access.credentials import Passwords, Signer, digest, new_key, new_token
from telegram_assistant.access.service import Access
from telegram_assistant.ai.providers import ModelsConfig, build_models
from telegram_assistant.ai.vision.describer import LocalVision
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import Role
from telegram_assistant.health import Health
from telegram_assistant.http.app import make_app
from telegram_assistant.http.dependencies import COOKIE
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.jobs.digests import open_digest_maker
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.search.ask import Asking
from telegram_assistant.services.media_links import Thumbnails
from telegram_assistant.services.services import Services
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import NEWS, SPORT, SYSTEM, Archive

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # the strong one is tested by itself
PRIVATE = 300  # a private channel of tenant B


@dataclass(frozen=True)
class Person:
    """A user with a key and a session."""

    tenant_id: UUID
    user_id: UUID
    role: Role
    key: str
    cookie: str
    csrf: str


@dataclass
class Town:
    """Who there is: an admin and a member of the system's tenant, an admin and a member of tenant B."""

    archive: Archive
    admin: Person = field(init=False)
    member: Person = field(init=False)
    other: Person = field(init=False)  # admin of B
    other_member: Person = field(init=False)

    async def person(self, tenant: UUID, role: Role) -> Person:
        user, key, cookie, csrf = uuid4(), new_key(), new_token(), new_token()
        await self.archive.run(
            "INSERT INTO users (id, tenant_id, name, login, role) VALUES (:id, :tenant, :name, :name, :role)",
            id=user,
            tenant=tenant,
            name=f"{role}-{user.hex[:6]}",
            role=str(role),
        )
        await self.archive.run(
            "INSERT INTO api_keys (tenant_id, user_id, name, prefix, sha256, role)"
            " VALUES (:tenant, :user, 'of a test', :prefix, :sha256, :role)",
            tenant=tenant,
            user=user,
            prefix=key.prefix,
            sha256=key.sha256,
            role=str(role),
        )
        await self.archive.run(
            "INSERT INTO sessions (tenant_id, user_id, sha256, csrf, expires_at)"
            " VALUES (:tenant, :user, :sha256, :csrf, :expires)",
            tenant=tenant,
            user=user,
            sha256=digest(cookie),
            csrf=csrf,
            expires=datetime.now(UTC) + timedelta(days=1),
        )
        return Person(tenant, user, role, key.token, cookie, csrf)


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    return Lexicon(Inflection())


@pytest.fixture
async def archive(database: AsyncEngine, lexicon: Lexicon) -> Archive:
    """Two channels that the system's own tenant watches."""
    made = Archive(database, lexicon)
    await made.channel(NEWS, "daily_news", SYSTEM)
    await made.channel(SPORT, "sport", SYSTEM)
    return made


@pytest.fixture
async def town(archive: Archive) -> Town:
    made = Town(archive)
    made.admin, made.member = await made.person(SYSTEM, Role.ADMIN), await made.person(SYSTEM, Role.MEMBER)
    b = await archive.tenant("tenant_b")
    made.other, made.other_member = await made.person(b, Role.ADMIN), await made.person(b, Role.MEMBER)
    await archive.channel(PRIVATE, "secret_of_b", b, owner=b)
    return made


@cache
def signer() -> Signer:
    """Made once: its key is slow to derive, on purpose."""
    return Signer("of a test")


@cache
def plain_settings() -> Settings:
    """Read once: 118 fields from four places."""
    return Settings()


@pytest.fixture
async def services(database: AsyncEngine, redis: Redis, lexicon: Lexicon, tmp_path: Path) -> AsyncIterator[Services]:
    """Searches by words alone; the graph is Ladybug in a folder, empty."""
    async with AsyncExitStack() as stack:
        vision = LocalVision(find_trained_data(None), nsfw=False)
        stack.push_async_callback(vision.close)
        models = build_models(ModelsConfig(), vision)
        stack.push_async_callback(models.close)
        graph = LadybugGraph(tmp_path / "graph")
        stack.push_async_callback(graph.close)
        search = open_search(database, clock=utc_now, lexicon=lexicon)
        settings = plain_settings().model_copy(update={"tga_data_dir": tmp_path})
        yield Services(
            settings=settings,
            database=database,
            redis=redis,
            clock=utc_now,
            health=Health(Supervisor(), demo=False),
            access=Access(database, redis, utc_now, passwords=Passwords(QUICK)),
            signer=signer(),
            search=search,
            asking=Asking(search, models.answerer),
            graph=graph,
            media=MediaStore.open(tmp_path / "media"),
            digests=open_digest_maker(settings, database, utc_now, lexicon=lexicon),
        )


@pytest.fixture(scope="session")
def app_of() -> Callable[[Services], FastAPI]:
    """The app is built once: its routes, middleware and compiled templates know nothing of the test that asks them."""
    built: list[FastAPI] = []

    def make(services: Services) -> FastAPI:
        if not built:
            built.append(make_app(services))
        app = built[0]
        app.state = State({"services": services, "pages": app.state.pages})
        return app

    return make


@pytest.fixture
async def app(services: Services, app_of: Callable[[Services], FastAPI]) -> AsyncIterator[FastAPI]:
    """As the `api` role makes it, without what runs beside it."""
    thumbnails = Thumbnails(services.media)
    made = app_of(replace(services, thumbnails=thumbnails))
    routes = list(made.router.routes)
    yield made
    if made.router.routes != routes:  # the test added some
        made.router.routes[:], made.openapi_schema = routes, None
    await thumbnails.close()


@pytest.fixture
async def client_of(app: FastAPI) -> AsyncIterator[Callable[..., httpx.AsyncClient]]:
    """A client of the API with a person's key, or of the pages with their session; of nobody without either."""
    async with AsyncExitStack() as stack:

        def make(person: Person | None = None, *, page: bool = False) -> httpx.AsyncClient:
            headers = {"Accept": "text/html"} if page else {}
            cookies = {}
            if person and page:
                cookies[COOKIE] = person.cookie
                headers["X-CSRF-Token"] = person.csrf
            elif person:
                headers["Authorization"] = f"Bearer {person.key}"
            client = httpx.AsyncClient(
                transport=httpx.ASGITransport(app, raise_app_exceptions=False),
                base_url="http://tga.test",
                headers=headers,
                cookies=cookies,
                timeout=300,
            )
            stack.push_async_callback(client.aclose)
            return client

        yield make
