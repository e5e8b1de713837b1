"""Four weeks of posts in several channels, with their findings."""

from __future__ import annotations

import pytest

from tests.integration.search.archive import SYSTEM, Archive
from tests.integration.trends.rising import CHANNELS, Past


@pytest.fixture
async def past(archive: Archive) -> Past:
    """Channels that the system's tenant watches, each with an ordinary month behind it."""
    for number in CHANNELS:
        await archive.channel(number, f"channel_{number}", SYSTEM)
    made = Past(archive)
    await made.ordinary()
    return made
