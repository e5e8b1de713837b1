"""The pages of digests: a form that says what is wrong, a preview, a history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Callable[..., httpx.AsyncClient]
TOPICS = "ставка\noil"
FORM = {
    "name": "Утро",
    "topics": TOPICS,
    "frequency": "weekly",
    "weekday": "4",
    "day": "1",
    "time": "08:05",
    "zone": "Europe/Berlin",
    "language": "ru",
    "most": "5",
    "ways": ["web", "rss", "email"],
    "channels": ["100"],
    "enabled": "1",
}


async def test_a_digest_is_made_changed_and_removed(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    assert "No digest yet" in (await client.get("/digests")).text
    assert "Europe/Moscow" in (await client.get("/digests/new")).text
    answer = await client.post("/digests", data=FORM)
    assert answer.status_code == 303, answer.text
    where = answer.headers["Location"]
    shown = (await client.get(where)).text
    assert "every week on Friday at 08:05, Europe/Berlin" in shown
    assert "/feeds/" in shown
    assert "No issue yet" in shown
    assert "Утро" in (await client.get("/digests")).text
    form = (await client.get(f"{where}/edit")).text
    assert 'value="100" checked' in form
    assert TOPICS in form
    assert (await client.post(where, data={**FORM, "enabled": "", "name": "Вечер"})).status_code == 303
    assert "paused" in (await client.get(where)).text
    assert (await client.post(f"{where}/remove")).status_code == 303
    assert (await client.get(where)).status_code == 404


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"zone": "Nowhere"}, "is no time zone"),
        ({"time": "8"}, "time: write it as 12:07"),
        ({"name": ""}, "name"),
        ({"topics": "\n".join(f"t{number}" for number in range(500))}, "you gave 500"),
        ({"most": "many"}, "max_stories"),
        ({"channels": ["300"]}, "you have no channel 300"),
        ({"ways": ["pigeon"]}, "deliveries"),
    ],
)
async def test_the_form_says_what_is_wrong_and_keeps_the_rest(
    town: Town, client_of: ClientOf, wrong: dict[str, Any], said: str
) -> None:
    client = client_of(town.member, page=True)
    answer = await client.post("/digests", data={**FORM, **wrong})
    assert answer.status_code == 422
    assert said in answer.text
    assert 'value="Утро"' in answer.text or "name" in wrong
    preview = await client.post("/digests/preview", data={**FORM, **wrong}, headers={"HX-Request": "true"})
    assert said in preview.text


async def test_a_preview_shows_stories(town: Town, client_of: ClientOf) -> None:
    words = "Банк России поднял ключевую ставку до 21 процента годовых сегодня днём."
    post = await town.archive.post(1, words, topics=("economy",))
    await town.archive.run("UPDATE posts SET posted_at = :at", at=datetime.now().astimezone())
    await town.archive.run("UPDATE search_documents SET posted_at = (SELECT posted_at FROM posts LIMIT 1)")
    client = client_of(town.member, page=True)
    preview = await client.post("/digests/preview", data={**FORM, "topics": "economy"}, headers={"HX-Request": "true"})
    assert preview.status_code == 200
    assert "ключевую ставку до 21 процента" in preview.text
    assert f'href="/posts/{post}"' in preview.text
    assert "Read: 1 post in 1 channel." in preview.text
    assert ">Economy<" in preview.text, "topics have names, not keys"
    assert "No digest yet" in (await client.get("/digests")).text, "nothing was saved"


async def test_a_form_of_somebody_else_is_refused(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member, page=True)
    del client.headers["X-CSRF-Token"]
    assert (await client.post("/digests", data=FORM)).status_code == 403
    assert (await client.post("/jobs/run", data={"job": "digests"})).status_code == 403
