"""The page of the graph: one walks by links, and it is no hairball."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from telegram_assistant.http.web.charts import Ray, graph_picture
from tests.integration.search.archive import NEWS

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any


async def tagged(town: Town, number: int, **found: Any) -> None:
    post = await town.archive.post(number, f"Пост {number} <script>alert(1)</script>")
    await town.archive.run(
        "INSERT INTO post_enrichment (post_id, kind, content_hash, data, provider)"
        " VALUES (:post, 'tags', '', CAST(:data AS jsonb), 'local')",
        post=post,
        data=json.dumps(found),
    )


async def test_one_walks_by_links(town: Town, client_of: ClientOf) -> None:
    evil = "<img src=x onerror=alert(1)>"
    for number in range(1, 4):
        await tagged(
            town,
            number,
            entities=[{"kind": "place", "name": "Москва"}, {"kind": "person", "name": evil}],
            topics=["economy"],
            tags=["нефть"],
        )
    client = client_of(town.member, page=True)
    html = (await client.get("/graph")).text
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    [channel, *_] = [unescape(one) for one in re.findall(r'href="(/graph\?node=channel[^"]*)"', html)]
    html = (await client.get(channel)).text
    assert "Daily_News" in html
    assert "3 posts" in html
    assert "place" in html
    assert re.findall(r'<a href="/graph\?node=entity[^"]*" class="entity">', html), "the picture has links too"
    client.cookies.set("tga_language", "ru")
    assert "Кто пишет" in (await client.get("/graph")).text
    assert (await client.get("/graph", params={"node": "entity:никто"})).status_code == 404
    assert (await client.get("/graph", params={"node": "nonsense"})).status_code == 422


async def test_without_posts_there_is_something_kind(town: Town, client_of: ClientOf) -> None:
    html = (await client_of(town.member, page=True).get("/graph")).text
    assert "Nothing leads on from here yet" in html
    other = await client_of(town.other, page=True).get("/graph", params={"node": f"channel:{NEWS}"})
    assert other.status_code == 404


def test_a_star_is_safe_and_bounded() -> None:
    rays = [Ray(f"/graph?node={at}", f"<{at}>" * 20, at, "entity") for at in range(16)]
    svg = graph_picture("<b>", "channel", rays, 'a "label"')
    assert "<b>" not in svg
    assert svg.count("<a href=") == 16
    assert "style=" not in svg
    assert graph_picture("", "start", [], "") != ""
