"""`tga tenants`, `tga users`, `tga keys`: who may come in, and leaving without a trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from telegram_assistant.access.erase import Eraser
from telegram_assistant.access.people import People, system_caller
from telegram_assistant.access.service import Access
from telegram_assistant.cli.session import with_runtime
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import Caller, Role
from telegram_assistant.domain.storage import MOST_QUOTA_MB
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.stores.postgres.users import Tenant, User
from telegram_assistant.wiring.runtime import Runtime, utc_now

console = Console()

Name = Annotated[str, typer.Argument(help="Name of the tenant.", metavar="NAME")]
Who = Annotated[str, typer.Argument(help="Login, e-mail address or name.", metavar="USER")]
InTenant = Annotated[str, typer.Option("--tenant", help="Name of the tenant.", metavar="NAME")]
Admin = Annotated[bool, typer.Option("--admin", help="With the rights of an admin.")]


def add_tenant(name: Name) -> None:
    async def work(runtime: Runtime) -> None:
        people = People(runtime.database, runtime.clock)
        if await people.tenant(name) is not None:
            raise Fatal(f"There is a tenant {name} already: tga tenants list")
        made = await people.add_tenant(name)
        console.print(f"{made.name}: made. Its first admin: tga users add Anna --admin --tenant {made.name}")

    with_runtime(work)


def list_tenants() -> None:
    async def work(runtime: Runtime) -> None:
        table = Table("tenant", "people", "channels", "since")
        for tenant in await People(runtime.database, runtime.clock).tenants():
            table.add_row(tenant.name, str(tenant.users), str(tenant.channels), f"{tenant.created_at:%Y-%m-%d}")
        console.print(table)

    with_runtime(work)


def set_quota(
    name: Name, megabytes: Annotated[str, typer.Argument(help="MB, 0 for none, or default.", metavar="MB")]
) -> None:
    given = None if megabytes == "default" else int(megabytes) if megabytes.isascii() and megabytes.isdecimal() else -1
    if given is not None and not 0 <= given <= MOST_QUOTA_MB:
        raise Fatal(f"say how many megabytes (0 for no quota), or default; not {megabytes[:40]}")

    async def work(runtime: Runtime) -> None:
        storage = Storage(runtime.database, default_mb=runtime.settings.storage_quota_mb)
        tenant = await find_tenant(People(runtime.database, runtime.clock), name)
        await storage.set_quota(tenant.id, given)
        quota = await storage.quota(tenant.id)
        if quota is None or not quota.megabytes:
            _say(f"{tenant.name}: no quota")
        else:
            _say(f"{tenant.name}: {quota.megabytes} MB, of which {quota.percent:.0f} % are used")
        revived = await storage.revive()
        if revived:
            _say(f"{revived} files that were refused before are downloaded now")

    with_runtime(work)


def add_user(
    name: Annotated[str, typer.Argument(help="How the person is called.", metavar="NAME")],
    admin: Admin = False,
    email: Annotated[str | None, typer.Option(help="E-mail address, to find the person by.", metavar="ADDRESS")] = None,
    tenant: InTenant = "system",
) -> None:
    async def work(people: People, caller: Caller, settings: Settings) -> None:
        role = Role.ADMIN if admin else Role.MEMBER
        invitation = await people.invite(caller, name=name, role=role, email=email)
        _show_link(settings, invitation.user.name, invitation.token)

    _within(tenant, work)


def list_users(tenant: InTenant = "system") -> None:
    async def work(people: People, caller: Caller, _: Settings) -> None:
        table = Table("name", "login", "e-mail", "role", "state", "since")
        for user in await people.users(caller, limit=1000):
            names = Text(user.name), Text(user.login or ""), Text(user.email or "")
            table.add_row(*names, user.role, user.state, f"{user.created_at:%Y-%m-%d}")
        console.print(table if table.row_count else f"No users yet: tga users add NAME --admin --tenant {tenant}")

    _within(tenant, work)


def disable_user(
    user: Who,
    tenant: InTenant = "system",
    enable: Annotated[bool, typer.Option("--enable", help="Let the user in again.")] = False,
) -> None:
    async def work(people: People, caller: Caller, _: Settings) -> None:
        found = await _user(people, caller, user)
        await people.change(caller, found.id, disabled=not enable)
        _say(f"{found.name}: {'may come in again' if enable else 'is kept out'}")

    _within(tenant, work)


def change_role(
    user: Who,
    role: Annotated[str, typer.Argument(help="admin or member", metavar="admin|member")],
    tenant: InTenant = "system",
) -> None:
    if role not in {Role.ADMIN, Role.MEMBER}:
        raise Fatal(f"say admin or member, not {role}")

    async def work(people: People, caller: Caller, _: Settings) -> None:
        found = await _user(people, caller, user)
        await people.change(caller, found.id, role=Role(role))
        _say(f"{found.name}: {role} from now on")

    _within(tenant, work)


def make_link(user: Who, tenant: InTenant = "system") -> None:
    async def work(people: People, caller: Caller, settings: Settings) -> None:
        found = await _user(people, caller, user)
        invitation = await people.link(caller, found.id)
        if invitation is not None:
            _show_link(settings, found.name, invitation.token)

    _within(tenant, work)


def first_link() -> None:
    async def work(runtime: Runtime) -> None:
        token = await Access(runtime.database, runtime.redis, runtime.clock).first_link()
        if token is None:
            raise Fatal("A user has chosen a password already: sign in, or make another link with tga users link NAME")
        _show_link(runtime.settings, "the first admin", token)

    with_runtime(work)


def create_key(
    user: Who,
    name: Annotated[str, typer.Argument(help="What the key is for.", metavar="NAME")],
    admin: Admin = False,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it ends; without: never.")] = None,
    tenant: InTenant = "system",
) -> None:
    async def work(people: People, caller: Caller, _: Settings) -> None:
        found = await _user(people, caller, user)
        role = Role.ADMIN if admin else Role.MEMBER
        expires = None if days is None else utc_now() + timedelta(days=days)
        made = await people.create_key(caller, name=name, role=role, expires=expires, user_id=found.id)
        _say("Keep it safe: it is not shown again. Send it as: Authorization: Bearer …")
        typer.echo(made.token)

    _within(tenant, work)


def list_keys(tenant: InTenant = "system") -> None:
    async def work(people: People, caller: Caller, _: Settings) -> None:
        table = Table(Column("key", no_wrap=True), "name", "user", "role", "last used", "ends")
        for key in await people.keys(caller, limit=1000):
            ends = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else _day(key.expires_at)
            table.add_row(f"tga_{key.prefix}_…", Text(key.name), Text(key.user), key.role, _day(key.last_used_at), ends)
        console.print(table if table.row_count else "No keys yet: tga keys create USER NAME")

    _within(tenant, work)


def revoke_key(
    key: Annotated[str, typer.Argument(help="Its beginning, as `tga keys list` shows it.", metavar="KEY")],
    tenant: InTenant = "system",
) -> None:
    prefix = key.removeprefix("tga_").partition("_")[0]

    async def work(people: People, caller: Caller, _: Settings) -> None:
        for found in await people.keys(caller, limit=10_000):
            if found.prefix == prefix:
                await people.revoke_key(caller, found.id)
                _say(f"tga_{prefix}_…: revoked ({found.name})")
                return
        raise Fatal(f"There is no key tga_{prefix}_… in {tenant}: tga keys list --tenant {tenant}")

    _within(tenant, work)


def _within(tenant: str, work: Callable[[People, Caller, Settings], Awaitable[None]]) -> None:
    """As the person at this machine, in one tenant."""

    async def with_people(runtime: Runtime) -> None:
        people = People(runtime.database, runtime.clock)
        await work(people, system_caller(await find_tenant(people, tenant)), runtime.settings)

    with_runtime(with_people)


async def find_tenant(people: People, name: str) -> Tenant:
    found = await people.tenant(name)
    if found is None:
        raise Fatal(f"There is no tenant {name}: tga tenants list shows them")
    return found


async def _user(people: People, caller: Caller, name: str) -> User:
    found = await people.named(caller, name)
    if found is None:
        raise Fatal(f"There is no user {name} in {caller.tenant}: tga users list --tenant {caller.tenant}")
    return found


def _show_link(settings: Settings, name: str, token: str) -> None:
    address = settings.api_public_url or f"http://{settings.api_host}:{settings.api_port}"
    _say(f"For {name}, to choose a name and a password (works once, for a day):")
    typer.echo(f"{address.rstrip('/')}/welcome?token={token}")


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else "never"


def erase_tenant(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask, for scripts.")] = False
) -> None:
    async def work(runtime: Runtime) -> None:
        tenant = await find_tenant(People(runtime.database, runtime.clock), name)
        async with AsyncExitStack() as stack:
            eraser = _eraser(runtime, stack)
            found = await eraser.foresee(tenant.id)
            console.print(
                f"{tenant.name}: {len(found.users)} users, {len(found.channels)} channels that no other tenant watches,"
                f" {found.posts} posts"
            )
            if not yes and typer.prompt("Type the name of the tenant to erase it") != tenant.name:
                raise Fatal("That is another name: nothing was erased")
            erased = await eraser.erase(tenant.id)
            console.print(f"Erased: {erased.posts} posts, {erased.files} files, and everything else of {tenant.name}")

    with_runtime(work)


def _eraser(runtime: Runtime, stack: AsyncExitStack) -> Eraser:
    from telegram_assistant.wiring import models  # noqa: PLC0415 - no other command here needs files and indexes

    vectors = models.open_vectors(runtime.settings, runtime.folder.path)
    stack.push_async_callback(vectors.close)
    graph = models.open_graph(runtime.settings, runtime.folder.path)
    stack.push_async_callback(graph.close)
    media = models.open_media_store(runtime.settings, runtime.folder.path)
    return Eraser(runtime.database, runtime.redis, vectors=vectors, graph=graph, media=media, clock=runtime.clock)
