"""What every page and answer has: headers, errors for people and for machines, the way to the sign-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from telegram_assistant.errors import Fatal, Reject, Retry
from telegram_assistant.http.dependencies import PER_MINUTE, AdminDep, CallerDep

pytestmark = pytest.mark.integration

Client = Callable[..., httpx.AsyncClient]
Town = Any  # of conftest.py, which cannot be imported


class Thing(BaseModel):
    number: int


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    """With some routes that fail in every way."""
    router = APIRouter()

    @router.get("/api/v1/fails/{how}")
    @router.get("/fails/{how}")
    async def fails(how: str, _: CallerDep) -> None:
        errors: dict[str, Exception] = {
            "retry": Retry("The model is away", after=7),
            "reject": Reject("That can never work"),
            "fatal": Fatal("Secret detail of ours"),
            "bug": ZeroDivisionError("secret detail of ours"),
        }
        raise errors[how]

    @router.post("/api/v1/things")
    async def things(thing: Thing, _: AdminDep) -> Thing:
        return thing

    app.include_router(router)
    return app


async def test_headers_are_on_everything(client_of: Client) -> None:
    for address in ("/static/app.css", "/static/vendor/htmx.min.js", "/nowhere", "/api/v1/nowhere"):
        headers = (await client_of(page=True).get(address)).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


async def test_errors_are_problems_for_machines(client_of: Client, town: Town) -> None:
    client = client_of(town.admin)
    for address, status, words in (
        ("/api/v1/nowhere", 404, "nothing at this address"),
        ("/api/v1/fails/retry", 503, "The model is away"),
        ("/api/v1/fails/reject", 422, "can never work"),
        ("/api/v1/fails/fatal", 500, "Something went wrong"),
        ("/api/v1/fails/bug", 500, "Something went wrong"),
    ):
        answer = await client.get(address)
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = answer.json()
        assert (answer.status_code, problem["status"], problem["type"]) == (status, status, "about:blank")
        assert words in problem["detail"]
        assert "ecret" not in answer.text
    assert (await client.get("/api/v1/fails/retry")).headers["Retry-After"] == "7"


async def test_a_wrong_value_is_named_and_not_repeated(client_of: Client, town: Town) -> None:
    answer = await client_of(town.admin).post("/api/v1/things", json={"number": "my secret"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["at"] == ["body", "number"]
    assert "secret" not in answer.text
    for body in (b"\xff\xfe", b"{", b'{"number": 1e999}', b'{"number": "\\ud800"}'):
        answer = await client_of(town.admin).post("/api/v1/things", content=body)
        assert answer.status_code == 422


async def test_errors_are_pages_for_people(client_of: Client, town: Town) -> None:
    client = client_of(town.admin, page=True)
    answer = await client.get("/nowhere<script>", headers={"Accept-Language": "ru"})
    assert answer.status_code == 404
    assert "Здесь ничего нет" in answer.text
    assert "<script>" not in answer.text
    part = await client.get("/fails/retry", headers={"HX-Request": "true"})
    assert (part.status_code, "<html" in part.text) == (503, False)
    assert "The model is away" in part.text


async def test_errors_are_told_in_the_readers_language(client_of: Client, town: Town) -> None:
    client = client_of(town.admin, page=True)
    russian = {"Accept-Language": "ru"}
    for address, status, words, exact in (
        ("/nowhere", 404, "Такого нет, или оно не ваше.", ""),
        ("/fails/bug", 500, "нас что-то сломалось.", ""),
        ("/fails/reject", 422, "Что-то введено неверно", '<p class="small" lang="en">That can never work</p>'),
        ("/fails/retry", 503, "Часть системы сейчас недоступна", '<p class="small" lang="en">The model is away</p>'),
    ):
        answer = await client.get(address, headers=russian)
        assert (answer.status_code, words in answer.text, exact in answer.text) == (status, True, True), address
        assert "nothing at this address" not in answer.text
        assert "Something went wrong" not in answer.text
    assert "There is nothing at this address" in (await client.get("/nowhere")).text


async def test_nobody_is_led_to_a_page_that_is_not_for_them(client_of: Client, town: Town) -> None:
    for person in (town.admin, town.member, town.other):
        client = client_of(person, page=True)
        opens = (await client.get("/jobs")).status_code == 200
        assert ('href="/jobs"' in (await client.get("/interests")).text) is opens, person


async def test_an_invitation_that_is_refused_can_be_corrected(client_of: Client, town: Town) -> None:
    written = {"name": "Анна «нет»", "email": "nomail", "role": "admin"}
    answer = await client_of(town.admin, page=True).post("/account/people", data=written)
    assert answer.status_code == 422
    assert 'value="Анна «нет»"' in answer.text
    assert 'value="nomail"' in answer.text
    assert '<option value="admin" selected>' in answer.text


async def test_strangers_are_led_to_the_sign_in(client_of: Client) -> None:
    answer = await client_of(page=True).get("/fails/bug?x=1")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in?next=%2Ffails%2Fbug%3Fx%3D1"
    by_htmx = await client_of(page=True).get("/fails/bug", headers={"HX-Request": "true"})
    assert by_htmx.headers["HX-Redirect"] == "/sign-in?next=%2F"
    assert (await client_of().get("/api/v1/fails/bug")).status_code == 401


async def test_keys_and_sessions_and_roles(client_of: Client, town: Town) -> None:
    body = {"number": 1}
    assert (await client_of(town.admin).post("/api/v1/things", json=body)).status_code == 200
    assert (await client_of(town.member).post("/api/v1/things", json=body)).status_code == 403
    session = client_of(town.admin, page=True)
    assert (await session.post("/api/v1/things", json=body)).status_code == 200
    for token in ("", "wrong", town.other.csrf, "\u00e9"):
        headers = {b"X-CSRF-Token": token.encode()}
        assert (await session.post("/api/v1/things", json=body, headers=headers)).status_code == 403, "CSRF"
    for header in ("Bearer", "Bearer tga_x", "Basic abc", f"Bearer {town.admin.key}x", "Bearer \x00", "x"):
        answer = await client_of().get("/api/v1/fails/bug", headers={"Authorization": header.replace("\x00", "%00")})
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), header


async def test_one_user_cannot_ask_without_end(client_of: Client, town: Town) -> None:
    client = client_of(town.member)
    for _ in range(PER_MINUTE * 3):  # it is refilled all the time
        answer = await client.get("/api/v1/fails/reject")
        if answer.status_code == 429:
            break
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert (await client_of(town.admin).get("/api/v1/fails/reject")).status_code == 422, "others are not hindered"


async def test_choices_are_kept(client_of: Client) -> None:
    client = client_of(page=True)
    answer = await client.get("/choose?language=ru&theme=dark&next=//evil.example")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    shown = (await client.get("/nowhere")).text
    assert '<html lang="ru" data-theme="dark">' in shown
