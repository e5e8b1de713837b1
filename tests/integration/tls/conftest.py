"""A fresh authority for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.tls.authority import Trust, make_trust


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return make_trust(tmp_path)
