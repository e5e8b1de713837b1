"""What runs in and around the containers, without them: the health check and the maker of secrets."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from telegram_assistant.embedded.process import free_port

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@contextmanager
def role(status: int) -> Iterator[int]:
    """A role that says how it is; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def check(*ports: int) -> int:
    script = ROOT / "deploy" / "docker" / "healthcheck.py"
    return subprocess.run([sys.executable, str(script), *map(str, ports)], check=False, timeout=300).returncode


def test_the_health_check() -> None:
    nobody = free_port()
    with role(200) as well, role(503) as ill:
        assert check(well) == 0
        assert check(nobody, well) == 0
        assert check(ill) == 1
        assert check(well, ill) == 1
    assert check(nobody) == 1


def test_secrets_are_made_once(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    script = Path(shutil.copy(ROOT / "deploy" / "make-secrets", tmp_path / "deploy"))
    subprocess.run([str(script)], check=True, capture_output=True, timeout=300)
    made = {path.name: path.read_text(encoding="ascii").strip() for path in (tmp_path / "secrets").iterdir()}
    assert made["database_url"] == f"postgresql://tga:{made['postgres_password']}@postgres:5432/tga"
    assert made["neo4j_auth"] == f"neo4j/{made['neo4j_password']}"
    assert len(made["tga_secret_key"]) == 48
    assert made["slack_url"] == ""
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    (tmp_path / "secrets" / "slack_url").write_text("mine", encoding="ascii")
    subprocess.run([str(script)], check=True, capture_output=True, timeout=300)
    after = {path.name: path.read_text(encoding="ascii").strip() for path in (tmp_path / "secrets").iterdir()}
    assert after == made | {"slack_url": "mine"}
