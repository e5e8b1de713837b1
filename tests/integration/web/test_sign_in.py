"""The pages of the door: sign in and out, one-time links, keys, people, the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from html import unescape
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI

from telegram_assistant.access.credentials import new_token
from telegram_assistant.access.people import system_caller
from telegram_assistant.access.service import PER_LOGIN
from telegram_assistant.domain.access import Role
from telegram_assistant.http.dependencies import COOKIE
from telegram_assistant.services.services import Services

pytestmark = pytest.mark.integration

PASSWORD = "correct horse battery staple"
Town = Any  # of conftest.py, which cannot be imported
ClientOf = Callable[..., httpx.AsyncClient]


async def invited(services: Services, name: str = "Anna", role: Role = Role.MEMBER) -> str:
    """The token of a link for somebody new of the system's tenant."""
    tenant = await services.access.people.tenant("system")
    assert tenant is not None
    return (await services.access.people.invite(system_caller(tenant), name=name, role=role)).token


async def anna(services: Services, client: httpx.AsyncClient, role: Role = Role.MEMBER) -> None:
    form = {"token": await invited(services, role=role), "login": "anna", "password": PASSWORD}
    assert (await client.post("/welcome", data=form)).status_code == 303


async def csrf_of(services: Services, client: httpx.AsyncClient) -> dict[str, str]:
    caller = await services.access.by_session(client.cookies[COOKIE])
    assert caller is not None
    return {"csrf": caller.csrf}


async def test_the_first_admin_comes_in(client_of: ClientOf, services: Services) -> None:
    token = await services.access.first_link()
    client = client_of(page=True)
    form = await client.get("/welcome", params={"token": token}, headers={"Accept-Language": "ru"})
    assert form.status_code == 200
    assert "Здравствуйте, admin" in form.text
    assert form.headers["cache-control"] == "no-store"
    assert (await client.get("/welcome", params={"token": token})).status_code == 200, "looking does not spend it"
    done = await client.post("/welcome", data={"token": token, "login": "Root", "password": PASSWORD})
    assert (done.status_code, done.headers["location"]) == (303, "/start")
    me = (await client.get("/api/v1/me")).json()
    assert (me["role"], me["tenant"]) == ("admin", "system")
    again = client_of(page=True)
    assert (await again.get("/welcome", params={"token": token})).status_code == 410
    spent = await again.post("/welcome", data={"token": token, "login": "other", "password": PASSWORD})
    assert spent.status_code == 410
    assert COOKIE not in again.cookies


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookie(app: FastAPI, services: Services, scheme: str) -> None:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://tga.test") as client:
        form = {"token": await invited(services), "login": "anna", "password": PASSWORD}
        for answer in (
            await client.post("/welcome", data=form),
            await client.post("/sign-in", data={"login": "anna", "password": PASSWORD}),
        ):
            cookie = answer.headers["set-cookie"].lower()
            assert cookie.startswith(f"{COOKIE}=")
            assert "httponly" in cookie
            assert "samesite=lax" in cookie
            assert "path=/" in cookie
            assert "domain" not in cookie
            assert ("secure" in cookie) == (scheme == "https")


async def test_signing_in_and_out(client_of: ClientOf, services: Services) -> None:
    await anna(services, client_of(page=True))
    client = client_of(page=True)
    form = await client.get("/sign-in", params={"next": "/account"})
    assert form.status_code == 200
    assert 'name="next" value="/account"' in form.text
    done = await client.post("/sign-in", data={"login": "ANNA", "password": PASSWORD, "next": "/account"})
    assert (done.status_code, done.headers["location"]) == (303, "/account")
    assert (await client.get("/account")).status_code == 200
    assert (await client.get("/sign-in")).status_code == 303, "already in"
    old = client.cookies[COOKIE]
    assert (await client.post("/sign-out")).status_code == 403, "without the token of the form"
    out = await client.post("/sign-out", data=await csrf_of(services, client))
    assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
    assert "max-age=0" in out.headers["set-cookie"].lower()
    assert await services.access.by_session(old) is None, "not only forgotten by the browser"
    assert (await client.get("/account")).headers["location"] == "/sign-in?next=%2Faccount"


async def test_a_planted_cookie_is_replaced(client_of: ClientOf, services: Services) -> None:
    """Fixation: whoever knows the cookie from before the sign-in has nothing after it."""
    await anna(services, client_of(page=True))
    client, planted = client_of(page=True), new_token()
    client.cookies.set(COOKIE, planted)
    answer = await client.post("/sign-in", data={"login": "anna", "password": PASSWORD})
    fresh = answer.cookies[COOKIE]
    assert fresh != planted
    assert await services.access.by_session(planted) is None
    again = await client.post(
        "/sign-in", data={"login": "anna", "password": PASSWORD}, headers={"Cookie": f"{COOKIE}={fresh}"}
    )
    assert await services.access.by_session(fresh) is None, "one device, one session"
    assert await services.access.by_session(again.cookies[COOKIE]) is not None


async def test_only_to_pages_of_ours(client_of: ClientOf, services: Services) -> None:
    await anna(services, client_of(page=True))
    client = client_of(page=True)
    outside = (
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "\\\\evil",
        "/\t/evil",
        "",
    )
    for there in outside:
        done = await client.post("/sign-in", data={"login": "anna", "password": PASSWORD, "next": there})
        assert done.headers["location"] == "/"
        assert (await client.get("/sign-in", params={"next": there})).headers["location"] == "/"


async def test_wrong_is_wrong_in_both_languages(client_of: ClientOf, services: Services) -> None:
    await anna(services, client_of(page=True))
    client = client_of(page=True)
    said = set()
    for login, password in (("anna", "wrong password"), ("nobody", PASSWORD), ("", "")):
        answer = await client.post("/sign-in", data={"login": login, "password": password})
        assert answer.status_code == 422
        assert "Wrong name or password." in answer.text
        assert password == "" or password not in answer.text
        said.add(answer.text.replace(f'value="{login}"', "").replace(" autofocus", ""))
    assert len(said) == 1, "the page does not tell which it was"
    russian = await client.post("/sign-in", data={"login": "x"}, headers={"Accept-Language": "ru"})
    assert "Неверное имя или пароль." in russian.text
    assert COOKIE not in client.cookies


@pytest.mark.parametrize("odd", ["\0", "'; DROP TABLE users; --", "<script>alert(1)</script>", "x" * 9000, "\u202e"])
async def test_odd_input(client_of: ClientOf, town: Town, odd: str) -> None:
    assert town.admin
    client = client_of(page=True)
    answer = await client.post("/sign-in", data={"login": odd, "password": odd, "next": odd[:100]})
    assert answer.status_code == 422
    assert "<script>alert" not in answer.text
    assert (await client.get("/sign-in", params={"next": odd[:100]})).status_code == 200
    assert (await client.get("/welcome", params={"token": odd[:100]})).status_code == 410
    assert (await client.post("/welcome", data={"token": odd[:100], "login": odd, "password": odd})).status_code == 410


async def test_guessing_is_slowed_down(client_of: ClientOf, services: Services) -> None:
    await anna(services, client_of(page=True))
    client = client_of(page=True)
    for _ in range(PER_LOGIN):
        assert (await client.post("/sign-in", data={"login": "anna", "password": "wrong password"})).status_code == 422
    answer = await client.post("/sign-in", data={"login": "anna", "password": PASSWORD})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 60
    assert "Too many attempts" in answer.text
    assert COOKIE not in client.cookies


async def test_a_form_of_another_site_signs_nobody_in(client_of: ClientOf, services: Services) -> None:
    await anna(services, client_of(page=True))
    client = client_of(page=True)
    form = {"login": "anna", "password": PASSWORD}
    for site in ("cross-site", "same-site"):
        assert (await client.post("/sign-in", data=form, headers={"Sec-Fetch-Site": site})).status_code == 403
    assert COOKIE not in client.cookies
    assert (await client.post("/sign-in", data=form, headers={"Sec-Fetch-Site": "same-origin"})).status_code == 303


async def test_choosing_badly_does_not_spend_the_link(client_of: ClientOf, services: Services) -> None:
    await anna(services, client_of(page=True))
    client, token = client_of(page=True), await invited(services, "Boris")
    for login, password, said in (
        ("boris", "short", "at least 10 characters"),
        ("boris", "x" * 1001, "at most 1,000"),
        ("boris", "a" * 12, "easy to guess"),
        ("b", PASSWORD, "3 to 100"),
        ("", PASSWORD, "Choose a name"),
        ("Anna", PASSWORD, "taken"),
    ):
        answer = await client.post("/welcome", data={"token": token, "login": login, "password": password})
        assert answer.status_code == 422
        assert said in unescape(answer.text)
        assert password not in answer.text
    assert (
        await client.post("/welcome", data={"token": token, "login": "boris", "password": PASSWORD})
    ).status_code == 303


async def test_another_password_by_link(client_of: ClientOf, services: Services) -> None:
    phone = client_of(page=True)
    await anna(services, phone)
    tenant = await services.access.people.tenant("system")
    assert tenant is not None
    operator = system_caller(tenant)
    user = await services.access.people.named(operator, "anna")
    assert user is not None
    made = await services.access.people.link(operator, user.id)
    assert made is not None
    laptop = client_of(page=True)
    form = await laptop.get("/welcome", params={"token": made.token})
    assert "readonly" in form.text
    sent = {"token": made.token, "login": "somebody-else", "password": "another good password"}
    assert (await laptop.post("/welcome", data=sent)).status_code == 303
    assert (await phone.get("/account")).status_code == 303, "out"
    answer = await phone.post("/sign-in", data={"login": "anna", "password": "another good password"})
    assert answer.status_code == 303


async def test_keys_on_the_page(client_of: ClientOf, services: Services) -> None:
    client = client_of(page=True)
    await anna(services, client)
    assert "No keys yet" in (await client.get("/account")).text
    form = {**await csrf_of(services, client), "name": "<b>export</b>", "days": "30"}
    assert (await client.post("/account/keys", data={"name": "x"})).status_code == 403, "CSRF"
    made = await client.post("/account/keys", data=form)
    assert made.headers["cache-control"] == "no-store"
    token = made.text.partition('id="token">')[2].partition("<")[0]
    assert await services.access.by_key(token) is not None
    assert "&lt;b&gt;export" in made.text
    later = await client.get("/account")
    assert token not in later.text
    [key] = await services.access.people.keys(await _caller(services, client))
    assert (await client.post(f"/account/keys/{uuid4()}/revoke", data=form)).status_code == 404
    assert (await client.post(f"/account/keys/{key.id}/revoke", data=form)).status_code == 303
    assert await services.access.by_key(token) is None
    wrong = await client.post("/account/keys", data={**form, "role": "admin"})
    assert wrong.status_code == 422
    assert "more rights" in wrong.text


async def _caller(services: Services, client: httpx.AsyncClient) -> Any:
    return await services.access.by_session(client.cookies[COOKIE])


async def test_people_on_the_page(client_of: ClientOf, services: Services, town: Town) -> None:
    client = client_of(page=True)
    await anna(services, client, Role.ADMIN)
    csrf = await csrf_of(services, client)
    made = await client.post(
        "/account/people", data={**csrf, "name": "Борис", "email": "b@example.org", "role": "member"}
    )
    assert made.headers["cache-control"] == "no-store"
    address = unescape(made.text.partition('id="link">')[2].partition("<")[0])
    assert address.startswith("http://tga.test/welcome?token=")
    boris = client_of(page=True)
    form = {"token": address.partition("token=")[2], "login": "boris", "password": PASSWORD}
    assert (await boris.post("/welcome", data=form)).status_code == 303
    user = (await _caller(services, boris)).user_id
    assert (await client.post(f"/account/people/{user}/admin", data=csrf)).status_code == 303
    assert (await boris.get("/account/people")).status_code == 200
    assert (await client.post(f"/account/people/{user}/disable", data=csrf)).status_code == 303
    assert (await boris.get("/account")).headers["location"].startswith("/sign-in")
    assert (await client.post(f"/account/people/{user}/link", data=csrf)).status_code == 422
    assert (await client.post(f"/account/people/{user}/enable", data=csrf)).status_code == 303
    assert address.partition("token=")[2] not in (await client.get("/account/people")).text
    own = (await _caller(services, client)).user_id
    await services.access.people.change(await _caller(services, client), user, role=Role.MEMBER)
    last = await client.post(f"/account/people/{own}/disable", data=csrf)
    assert last.status_code == 422
    assert "last admin" in last.text
    for change in ("admin", "disable", "link"):
        assert (await client.post(f"/account/people/{town.other.user_id}/{change}", data=csrf)).status_code == 404
    log = await client.get("/account/log", headers={"Accept-Language": "ru"})
    assert "приглашение" in log.text
    assert "Борис" in log.text


async def test_members_see_only_themselves(client_of: ClientOf, town: Town) -> None:
    client = client_of(town.member, page=True)
    own = await client.get("/account")
    assert own.status_code == 200
    assert "/account/people" not in own.text
    for path in ("/account/people", "/account/log"):
        assert (await client.get(path)).status_code == 403
    for path in (
        "/account/people",
        f"/account/people/{town.member.user_id}/admin",
        f"/account/people/{town.member.user_id}/link",
    ):
        assert (await client.post(path, data={"name": "x"})).status_code == 403


async def test_the_log_goes_on(client_of: ClientOf, services: Services, town: Town) -> None:
    client = client_of(town.admin, page=True)
    assert "Nothing has been done yet" in (await client.get("/account/log")).text
    caller = await services.access.by_session(town.admin.cookie)
    assert caller is not None
    for number in range(60):
        await services.access.record(caller, "something_new", f"<i>{number}</i>", {"n": number})
    first = await client.get("/account/log")
    assert "&lt;i&gt;59" in first.text
    assert "&lt;i&gt;9&lt;" not in first.text
    older = unescape(first.text.partition('href="/account/log?')[2].partition('"')[0])
    assert "&lt;i&gt;9&lt;" in (await client.get(f"/account/log?{older}")).text
    assert (await client.get("/account/log?cursor=x")).status_code == 422


async def test_signing_out_everywhere(client_of: ClientOf, services: Services) -> None:
    phone, laptop = client_of(page=True), client_of(page=True)
    await anna(services, phone)
    await laptop.post("/sign-in", data={"login": "anna", "password": PASSWORD})
    csrf = await csrf_of(services, laptop)
    assert (await laptop.post("/account/sign-out-everywhere", data=csrf)).status_code == 303
    for client in (phone, laptop):
        assert (await client.get("/account")).headers["location"].startswith("/sign-in")


async def test_secrets_are_not_in_the_logs(
    client_of: ClientOf, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client, token = client_of(page=True), await invited(services)
    await client.get("/welcome", params={"token": token})
    await client.post("/welcome", data={"token": token, "login": "anna", "password": PASSWORD})
    await client.post("/sign-in", data={"login": "anna", "password": "a wrong password"})
    cookie = client.cookies[COOKIE]
    made = await client.post("/account/keys", data={**await csrf_of(services, client), "name": "export"})
    key = made.text.partition('id="token">')[2].partition("<")[0]
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore", "asyncio"))]
    said = " ".join(record.getMessage() for record in ours)
    for secret in (token, PASSWORD, "a wrong password", cookie, key):
        assert secret
        assert secret not in said
