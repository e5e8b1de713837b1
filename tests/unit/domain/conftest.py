"""Property tests here are judged by what they find, not by how fast a busy machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "domain", deadline=None, database=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("domain")
