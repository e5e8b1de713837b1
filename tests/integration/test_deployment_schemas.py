"""compose.yaml and the manifests against the schemas of Compose and Kubernetes, with planted mistakes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
OLDEST, NEWEST = "1.29", "1.37"  # of Kubernetes, as docs/howto/deploy.md says


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def check_compose(path: Path) -> subprocess.CompletedProcess[str]:
    return run("check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path))


def check_manifests(version: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Strict: a field that the schema does not know is a mistake."""
    return run("kubernetes_validate", "--strict", "--kubernetes-version", version, *map(str, paths))


def test_compose_fits_its_schema() -> None:
    done = check_compose(COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "right, wrong, named",
    [
        ("profiles: [bot]", "profile: [bot]", "profile"),
        ("read_only: true", "read_only: [true]", "read_only"),
        ("condition: service_completed_successfully", "condition: service_completed", "service_completed"),
        ("  telegram_api_hash: {file:", "  telegram_api_hash: {path:", "path"),
    ],
)
def test_a_mistake_in_compose_is_found(tmp_path: Path, right: str, wrong: str, named: str) -> None:
    text = COMPOSE.read_text("utf-8")
    assert right in text
    (tmp_path / "compose.yaml").write_text(text.replace(right, wrong), encoding="utf-8")
    done = check_compose(tmp_path / "compose.yaml")
    assert done.returncode == 1
    assert named in done.stdout


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_manifests_fit_their_schemas(version: str) -> None:
    """All but the one of KEDA, which is no part of Kubernetes."""
    done = check_manifests(version, *MANIFESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = set(re.findall(r"passed for resource (\S+) against", done.stdout + done.stderr))
    documents = [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text("utf-8"))]
    expected = {f"{one['kind'].lower()}/{one['metadata']['name']}" for one in documents}
    assert expected - passed == {"scaledobject/worker"}


@pytest.mark.parametrize(
    "right, wrong, named",
    [
        ("maxUnavailable: 1", "maxUnavailible: 1", "maxUnavailible"),
        ("containerPort: 8015", "containerPort: http", "containerPort"),
        ("readinessProbe:", "readynessProbe:", "readynessProbe"),
    ],
)
def test_a_mistake_in_a_manifest_is_found(tmp_path: Path, right: str, wrong: str, named: str) -> None:
    text = (ROOT / "deploy" / "kubernetes" / "bot.yaml").read_text("utf-8")
    assert right in text
    (tmp_path / "bot.yaml").write_text(text.replace(right, wrong), encoding="utf-8")
    done = check_manifests(NEWEST, tmp_path / "bot.yaml")
    assert done.returncode == 1
    assert named in done.stdout + done.stderr
