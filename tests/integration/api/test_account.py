"""`/me`, `/keys`, `/users`, `/audit`: one's own, or one's tenant's; nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import httpx
import pytest

from telegram_assistant.access.service import Access
from telegram_assistant.services.services import Services

pytestmark = pytest.mark.integration

API = "/api/v1"
Town = Any  # of conftest.py, which cannot be imported
ClientOf = Callable[..., httpx.AsyncClient]


async def test_who_am_i(client_of: ClientOf, town: Town) -> None:
    answer = await client_of(town.admin).get(f"{API}/me")
    assert answer.status_code == 200
    me = answer.json()
    assert (me["user_id"], me["tenant"], me["role"], me["via"]) == (str(town.admin.user_id), "system", "admin", "key")
    again = await client_of(town.admin).get(f"{API}/me", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    by_page = (await client_of(town.other, page=True).get(f"{API}/me")).json()
    assert (by_page["tenant"], by_page["via"]) == ("tenant_b", "session")


@pytest.mark.parametrize("path", ["/me", "/keys", "/users", "/audit", f"/users/{UUID(int=1)}"])
async def test_strangers_get_nothing(client_of: ClientOf, town: Town, path: str) -> None:
    assert town.admin
    answer = await client_of().get(API + path)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    wrong = await client_of().get(API + path, headers={"Authorization": f"Bearer {town.admin.key[:-1]}!"})
    assert wrong.status_code == 401


@pytest.mark.parametrize(
    "method,path",
    [
        ("GET", "/users"),
        ("POST", "/users"),
        ("GET", "/users/{id}"),
        ("PATCH", "/users/{id}"),
        ("POST", "/users/{id}/link"),
        ("GET", "/audit"),
    ],
)
async def test_members_manage_nobody(client_of: ClientOf, town: Town, method: str, path: str) -> None:
    path = path.format(id=town.member.user_id)
    answer = await client_of(town.member).request(method, API + path, json={"name": "Friend", "role": "admin"})
    assert answer.status_code == 403


async def test_a_key_is_shown_once_and_works_until_it_is_revoked(client_of: ClientOf, town: Town) -> None:
    client = client_of(town.member)
    made = await client.post(f"{API}/keys", json={"name": "export", "expires_in_days": 30})
    assert made.status_code == 201
    token, key = made.json()["token"], made.json()["key"]
    assert token.startswith(key["prefix"])
    assert key["expires_at"]
    listed = (await client.get(f"{API}/keys")).json()
    assert [one["name"] for one in listed["items"]] == ["export", "of a test"]
    assert token not in str(listed)
    mine = {"Authorization": f"Bearer {token}"}
    assert (await client.get(f"{API}/me", headers=mine)).json()["user_id"] == str(town.member.user_id)
    assert (await client.delete(f"{API}/keys/{key['id']}")).status_code == 204
    assert (await client.get(f"{API}/me", headers=mine)).status_code == 401


async def test_a_member_makes_no_admin_key(client_of: ClientOf, town: Town) -> None:
    answer = await client_of(town.member).post(f"{API}/keys", json={"name": "x", "role": "admin"})
    assert answer.status_code == 422
    assert "more rights" in answer.json()["detail"]
    assert (await client_of(town.admin).post(f"{API}/keys", json={"name": "x", "role": "admin"})).status_code == 201


async def test_a_key_makes_none_that_ends_later(client_of: ClientOf, town: Town) -> None:
    client, page = client_of(town.member), client_of(town.member, page=True)
    lent = (await client.post(f"{API}/keys", json={"name": "lent", "expires_in_days": 30})).json()["token"]
    with_it = {"Authorization": f"Bearer {lent}"}
    for wish in ({"name": "x"}, {"name": "x", "expires_in_days": 31}):
        answer = await client.post(f"{API}/keys", json=wish, headers=with_it)
        assert answer.status_code == 422
        assert "cannot outlive it" in answer.json()["detail"]
    shorter = await client.post(f"{API}/keys", json={"name": "x", "expires_in_days": 29}, headers=with_it)
    assert shorter.status_code == 201
    assert (await page.post(f"{API}/keys", json={"name": "x"})).status_code == 201, "a person may"


async def test_keys_of_others_are_not_there(client_of: ClientOf, town: Town) -> None:
    made = (await client_of(town.member).post(f"{API}/keys", json={"name": "export"})).json()["key"]
    for other in (town.other, town.other_member):
        assert (await client_of(other).delete(f"{API}/keys/{made['id']}")).status_code == 404
    assert (await client_of(town.admin).delete(f"{API}/keys/{made['id']}")).status_code == 204


async def test_pages_of_keys(client_of: ClientOf, town: Town) -> None:
    client = client_of(town.member)
    for number in range(4):
        await client.post(f"{API}/keys", json={"name": f"key {number}"})
    names: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        answer = (await client.get(f"{API}/keys", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        names += [one["name"] for one in answer["items"]]
        cursor = answer["next"]
    assert names == ["key 3", "key 2", "key 1", "key 0", "of a test"]
    assert cursor is None


CURSORS: list[str] = ["x", "\0", "W10", "WyIxIl0", "WzFd", "WzE4NDQ2NzQ0MDczNzA5NTUxNjE2XQ", "a" * 2000]
LISTS = ("/keys", "/users", "/audit")


async def test_made_up_cursors(client_of: ClientOf, town: Town, subtests: pytest.Subtests) -> None:
    for cursor in CURSORS:
        for path in LISTS:
            with subtests.test(path=path, cursor=cursor):
                answer = await client_of(town.admin).get(API + path, params={"cursor": cursor})
                assert answer.status_code in ({200, 422} if path == "/audit" else {422})


WRONG_WISHES: list[object] = [
    {},
    {"name": ""},
    {"name": "x" * 101},
    {"name": "\0"},
    {"name": "\u202e"},
    {"name": "x", "role": "system"},
    {"name": "x", "expires_in_days": 0},
    {"name": "x", "expires_in_days": 10**30},
    {"name": "x", "user_id": "me"},
    [],
    "x",
]


async def test_wrong_wishes_for_a_key(client_of: ClientOf, town: Town, subtests: pytest.Subtests) -> None:
    for wish in WRONG_WISHES:
        with subtests.test(wish=wish):
            assert (await client_of(town.admin).post(f"{API}/keys", json=wish)).status_code == 422


async def test_letting_somebody_in(client_of: ClientOf, town: Town, services: Services) -> None:
    wish = {"name": "Anna", "email": "Anna@Example.org", "role": "admin"}
    made = await client_of(town.other).post(f"{API}/users", json=wish)
    assert made.status_code == 201
    assert made.json()["user"]["state"] == "invited"
    address = urlsplit(made.json()["link"])
    assert (address.netloc, address.path) == ("tga.test", "/welcome")
    cookie = await services.access.redeem(parse_qs(address.query)["token"][0], "anna", "correct horse battery staple")
    caller = await services.access.by_session(cookie)
    assert caller is not None
    assert caller.tenant_id == town.other.tenant_id
    assert caller.is_admin
    again = await client_of(town.admin).post(f"{API}/users", json=wish)
    assert again.status_code == 422
    listed = (await client_of(town.other).get(f"{API}/users")).json()["items"]
    assert {one["name"]: one["state"] for one in listed}["Anna"] == "active"
    assert all(one["login"] != "anna" for one in (await client_of(town.admin).get(f"{API}/users")).json()["items"])


async def test_people_of_others_are_not_there(client_of: ClientOf, town: Town) -> None:
    client = client_of(town.other)
    for path in (f"/users/{town.member.user_id}", f"/users/{uuid4()}"):
        assert (await client.get(API + path)).status_code == 404
        assert (await client.patch(API + path, json={"disabled": True})).status_code == 404
        assert (await client.post(f"{API}{path}/link")).status_code == 404
    listed = (await client.get(f"{API}/users")).json()["items"]
    assert {one["id"] for one in listed} >= {str(town.other.user_id), str(town.other_member.user_id)}
    assert str(town.member.user_id) not in str(listed)
    assert (await client_of(town.member).get(f"{API}/me")).status_code == 200


async def test_keeping_somebody_out(client_of: ClientOf, town: Town) -> None:
    client, path = client_of(town.admin), f"{API}/users/{town.member.user_id}"
    assert (await client.patch(path, json={"disabled": True})).json()["state"] == "disabled"
    assert (await client_of(town.member).get(f"{API}/me")).status_code == 401
    assert (await client_of(town.member, page=True).get(f"{API}/me")).status_code == 401
    assert (await client.post(f"{path}/link")).status_code == 409
    assert (await client.patch(path, json={"disabled": False})).status_code == 200
    assert (await client_of(town.member).get(f"{API}/me")).status_code == 200


async def test_the_last_admin_stays(client_of: ClientOf, town: Town) -> None:
    for wish in ({"disabled": True}, {"role": "member"}):
        answer = await client_of(town.admin).patch(f"{API}/users/{town.admin.user_id}", json=wish)
        assert answer.status_code == 409
        assert "last admin" in answer.json()["detail"]
    assert (await client_of(town.admin).patch(f"{API}/users/{town.admin.user_id}", json={})).status_code == 422


async def test_one_who_was_demoted_is_one_at_once(client_of: ClientOf, town: Town) -> None:
    path = f"{API}/users/{town.member.user_id}"
    assert (await client_of(town.admin).patch(path, json={"role": "admin"})).json()["role"] == "admin"
    assert (await client_of(town.member, page=True).get(f"{API}/users")).status_code == 200
    assert (await client_of(town.member).get(f"{API}/users")).status_code == 403, "the key is still a member's"


async def test_what_was_done(client_of: ClientOf, town: Town) -> None:
    client = client_of(town.admin)
    token = (await client.post(f"{API}/keys", json={"name": "export"})).json()["token"]
    link = (await client.post(f"{API}/users", json={"name": "Anna"})).json()["link"]
    first = (await client.get(f"{API}/audit", params={"limit": 1})).json()
    assert [(one["action"], one["target"]) for one in first["items"]] == [("user_invited", "Anna")]
    rest = (await client.get(f"{API}/audit", params={"cursor": first["next"]})).json()
    assert [one["action"] for one in rest["items"]] == ["key_created"]
    whole = str(first) + str(rest)
    assert token[13:] not in whole
    assert link.partition("token=")[2] not in whole
    assert (await client_of(town.other).get(f"{API}/audit")).json()["items"] == []


async def test_signing_out_everywhere(client_of: ClientOf, town: Town) -> None:
    page = client_of(town.member, page=True)
    assert (await page.delete(f"{API}/me/sessions")).status_code == 204
    assert (await page.get(f"{API}/me")).status_code == 401
    assert (await client_of(town.member).get(f"{API}/me")).status_code == 200


async def test_a_session_needs_its_token_to_change_something(client_of: ClientOf, town: Town) -> None:
    page = client_of(town.admin, page=True)
    del page.headers["X-CSRF-Token"]
    assert (await page.post(f"{API}/keys", json={"name": "x"})).status_code == 403
    page.headers["X-CSRF-Token"] = town.member.csrf
    assert (await page.post(f"{API}/keys", json={"name": "x"})).status_code == 403


async def test_guessing_keys_is_slowed_down(client_of: ClientOf, town: Town) -> None:
    client = client_of()
    client.headers["Authorization"] = f"Bearer {town.admin.key[:-4]}aaaa"
    codes = [(await client.get(f"{API}/me")).status_code for _ in range(35)]
    assert codes[0] == 401
    assert codes[-1] == 429
    answer = await client.get(f"{API}/me")
    assert int(answer.headers["retry-after"]) >= 1


async def test_odd_ids(client_of: ClientOf, town: Town) -> None:
    for odd in ("x", "0", "%00", "a" * 500, "🦆"):
        assert (await client_of(town.admin).delete(f"{API}/keys/{odd}")).status_code in {404, 422}
        assert (await client_of(town.admin).get(f"{API}/users/{odd}")).status_code in {404, 422}


def test_the_door_is_the_real_one(services: Services) -> None:
    assert isinstance(services.access, Access)
