"""A real Neo4j community server for tests: fetched by Maven, one for all test processes, gone with the last of them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import neo4j

from telegram_assistant.embedded.process import free_port

HERE = Path(__file__).parent / "neo4j"
USER, PASSWORD = "neo4j", "for-tests-only"
FETCHING = 540  # seconds: about 210 files, 130 MB

SETTINGS = """
server.bolt.enabled=true
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled=true
dbms.usage_report.enabled=false
server.memory.pagecache.size=64m
db.tx_log.preallocate=false
"""


class OutOfReachError(Exception):
    """There is no Neo4j to be had on this machine; the message says why."""


@dataclass(frozen=True)
class Address:
    """Where the server is."""

    uri: str
    user: str = USER
    password: str = PASSWORD


@contextmanager
def neo4j_server(shared: Path, cache: Path) -> Iterator[Address]:
    """The server whose state is in `shared`; the first who asks starts it.

    Its standard input is a pipe that every user holds open. When the last one is gone, even by kill -9, the server
    reads the end of it and ends.
    """
    shared.mkdir(parents=True, exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pipe = _join(shared) or _try_to_start(shared, cache)
        address = Address((shared / "uri").read_text())
    try:
        yield address
    finally:
        os.close(pipe)


def _join(shared: Path) -> int | None:
    try:
        return os.open(shared / "pipe", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no pipe yet, or nobody at its other end
        return None


def _try_to_start(shared: Path, cache: Path) -> int:
    """What one test process could not have, the others need not wait for."""
    reason = shared / "out-of-reach"
    if reason.exists():
        raise OutOfReachError(reason.read_text())
    try:
        return _start(shared, _class_path(cache))
    except OutOfReachError as exc:
        reason.write_text(str(exc))
        raise


def _start(shared: Path, class_path: str) -> int:
    port, home, pipe_path = free_port(), shared / "home", shared / "pipe"
    shutil.rmtree(home, ignore_errors=True)
    pipe_path.unlink(missing_ok=True)
    os.mkfifo(pipe_path)
    settings = shared / "neo4j.conf"
    settings.write_text(SETTINGS.format(port=port))
    pipe = os.open(pipe_path, os.O_RDWR)  # both ends, so that opening does not wait
    small = ["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = ["java", *small, "-cp", class_path, str(HERE / "Server.java"), str(home), str(settings)]
    reading, (words, output) = os.open(pipe_path, os.O_RDONLY), os.pipe()
    log = os.open(shared / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    given = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate((reading, output, log))]
    os.posix_spawnp("java", command, os.environ, file_actions=given)  # nobody waits for it: it may outlive us
    for end in (reading, output, log):
        os.close(end)
    with os.fdopen(words) as lines:
        first = lines.readline()  # nothing, if it cannot start
    if first.strip() != "ready":
        os.close(pipe)
        raise OutOfReachError(f"Neo4j did not start: {first}{(shared / 'log').read_text()[-2000:]}")
    uri = f"bolt://127.0.0.1:{port}"
    _set_password(uri)
    (shared / "uri").write_text(uri)
    return pipe


def _set_password(uri: str) -> None:
    with neo4j.GraphDatabase.driver(uri, auth=(USER, "neo4j")) as driver:
        change = "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password"
        driver.execute_query(change, {"password": PASSWORD}, database_="system")


def _class_path(cache: Path) -> str:
    """All jars of the server, from Maven's own cache; asked for again when the pom changes or a jar is gone."""
    for tool in ("mvn", "java", "javac"):
        if shutil.which(tool) is None:
            raise OutOfReachError(f"{tool} is not installed (Neo4j needs Maven and a JDK of version 17 or newer)")
    pom = HERE / "pom.xml"
    known = cache / f"{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}.classpath"
    if not known.exists() or not all(Path(jar).exists() for jar in known.read_text().split(":")):
        draft = known.with_suffix(f".{os.getpid()}")
        quiet = ["mvn", "-B", "-q", "-ntp", "-Dstyle.color=never", "-Dmaven.artifact.threads=16", "-f", str(pom)]
        try:
            subprocess.run(
                [*quiet, "dependency:build-classpath", f"-Dmdep.outputFile={draft}"],
                check=True,
                capture_output=True,
                text=True,
                timeout=FETCHING,
            )
        except subprocess.CalledProcessError as exc:
            raise OutOfReachError(f"Maven cannot fetch Neo4j: {(exc.stdout or exc.stderr).strip()[:500]}") from exc
        except subprocess.TimeoutExpired as exc:
            raise OutOfReachError(f"Maven did not fetch Neo4j within {FETCHING} s") from exc
        draft.replace(known)
    return known.read_text()
