"""Which pinned packages have known vulnerabilities, as the database OSV (osv.dev) knows them. See docs/security.md.

Ends with 0: none. 1: there are some. 2: the database gave no answer, so nothing is known.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

LOCKS = Path(__file__).parents[1] / "requirements"
DATABASE = "https://api.osv.dev"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
# Known to be vulnerable for years: an answer without it is no answer.
CANARY = ("jinja2", "2.4.1")
AT_ONCE = 500
SECONDS = 30.0


class NoAnswerError(Exception):
    """The database gave no answer; the message says why."""


@dataclass(frozen=True, order=True)
class Flaw:
    """One entry of the database for one package."""

    package: str
    version: str
    number: str
    summary: str = ""
    mended_in: str = ""

    def __str__(self) -> str:
        mended = f", mended in {self.mended_in}" if self.mended_in else ""
        return f"{self.package} {self.version}: {self.number} {self.summary}{mended}"


def pinned(folder: Path) -> list[tuple[str, str]]:
    found = {match.groups() for path in folder.glob("*.lock") for match in PIN.finditer(path.read_text("utf-8"))}
    return sorted((name, version) for name, version in found)


def known_flaws(client: httpx.Client, packages: list[tuple[str, str]]) -> list[Flaw]:
    """Raises NoAnswerError."""
    try:
        found = [
            pair for start in range(0, len(packages), AT_ONCE) for pair in _batch(client, packages[start:][:AT_ONCE])
        ]
        return sorted(_told(client, name, version, number) for name, version, number in found)
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as exc:
        raise NoAnswerError(f"{type(exc).__name__}: {exc}".splitlines()[0]) from exc


def _batch(client: httpx.Client, packages: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    asked = [*packages, CANARY]
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in asked]
    results = client.post("/v1/querybatch", json={"queries": queries}).raise_for_status().json()["results"]
    if len(results) != len(asked) or not results[-1].get("vulns"):
        raise NoAnswerError(f"the answer does not know {CANARY[0]} {CANARY[1]}, which is vulnerable for sure")
    pairs = zip(packages, results, strict=False)
    return [(name, version, one["id"]) for (name, version), result in pairs for one in result.get("vulns", ())]


def _told(client: httpx.Client, name: str, version: str, number: str) -> Flaw:
    said: dict[str, Any] = client.get(f"/v1/vulns/{number}").raise_for_status().json()
    events = [
        event["fixed"]
        for affected in said.get("affected", ())
        if affected.get("package", {}).get("name", "").lower() == name.lower()
        for versions in affected.get("ranges", ())
        if versions.get("type") == "ECOSYSTEM"
        for event in versions.get("events", ())
        if "fixed" in event
    ]
    return Flaw(name, version, number, str(said.get("summary", "")), ", ".join(events))


def main(folder: Path = LOCKS, database: str = DATABASE) -> int:
    packages = pinned(folder)
    try:
        with httpx.Client(base_url=database, timeout=SECONDS) as client:
            flaws = known_flaws(client, packages)
    except NoAnswerError as exc:
        sys.stderr.write(f"Not checked: the database of vulnerabilities at {database} gave no answer ({exc}).\n")
        return 2
    for flaw in flaws:
        sys.stdout.write(f"{flaw}\n")
    sys.stdout.write(f"{len(packages)} pinned packages, {len(flaws)} known vulnerabilities.\n")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) == 3 else ()))
