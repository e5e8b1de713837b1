"""`make audit` against a database on loopback: what it finds, and that it never takes silence for good news."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from telegram_assistant.embedded.process import free_port

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit.py"
FLAW = {
    "summary": "It does what a stranger says",
    "affected": [
        {
            "package": {"name": "Risky"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
        }
    ],
}


class Database:
    """Says which packages are vulnerable."""

    def __init__(self) -> None:
        self.vulnerable = {"jinja2": ["OLD-1"]}
        self.asked: list[dict[str, Any]] = []
        database = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
                database.asked += queries
                known = [database.vulnerable.get(query["package"]["name"], []) for query in queries]
                self._answer({"results": [{"vulns": [{"id": one} for one in ids]} if ids else {} for ids in known]})

            def do_GET(self) -> None:
                self._answer(FLAW)

            def log_message(self, *_: object) -> None:
                """Nothing."""

            def _answer(self, value: object) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def database() -> Iterator[Database]:
    made = Database()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    (tmp_path / "run.lock").write_text(
        "risky==2.0 \\\n    --hash=sha256:00\n    # via x\nsafe==1.0 ; python_version < '3.12' \\\n", encoding="utf-8"
    )
    (tmp_path / "dev.lock").write_text("safe==1.0 \\\n", encoding="utf-8")
    return tmp_path


def audit(locks: Path, url: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, SCRIPT, locks, url], capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def test_nothing_is_known(database: Database, locks: Path) -> None:
    assert audit(locks, database.url) == (0, "2 pinned packages, 0 known vulnerabilities.\n")
    asked = [(query["package"]["name"], query["version"]) for query in database.asked]
    assert asked == [("risky", "2.0"), ("safe", "1.0"), ("jinja2", "2.4.1")]


def test_what_is_known_is_told(database: Database, locks: Path) -> None:
    database.vulnerable["risky"] = ["GHSA-1"]
    code, said = audit(locks, database.url)
    assert code == 1
    assert "risky 2.0: GHSA-1 It does what a stranger says, mended in 2.1" in said
    assert "2 pinned packages, 1 known vulnerabilities." in said


def test_silence_is_no_good_news(database: Database, locks: Path) -> None:
    database.vulnerable.clear()
    code, said = audit(locks, database.url)
    assert code == 2
    assert said.startswith("Not checked: ")
    assert said.count("\n") == 1


def test_nobody_there_is_told_in_one_line(locks: Path) -> None:
    code, said = audit(locks, f"http://127.0.0.1:{free_port()}")
    assert code == 2
    assert said.startswith("Not checked: the database of vulnerabilities at http://127.0.0.1:")
    assert said.count("\n") == 1
