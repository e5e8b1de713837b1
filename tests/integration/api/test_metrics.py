"""What Prometheus reads from the API, also before another request asks how the engines are."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from telegram_assistant.services.services import Services

pytestmark = pytest.mark.integration


async def test_each_scrape_asks_the_engines(app: FastAPI, services: Services) -> None:
    away = False

    async def engine() -> None:
        if away:
            raise OSError("it is away")

    async def scraped() -> float:
        text = (await client.get("/metrics")).text
        return next(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if (sample.name, sample.labels) == ("engine_up", {"engine": "engine_of_a_test"})
        )

    services.health.engines["engine_of_a_test"] = engine
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://tga.test") as client:
        assert await scraped() == 1
        away = True
        assert await scraped() == 0
        away = False
        assert await scraped() == 1
