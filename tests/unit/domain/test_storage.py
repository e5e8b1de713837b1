"""Quotas: when to warn, when to refuse, and for whom a file is kept."""

from __future__ import annotations

from uuid import uuid4

import pytest

from telegram_assistant.domain.storage import MEGABYTE, REFUSED, Quota, Room, Standing, room_of

pytestmark = pytest.mark.unit


def quota(megabytes: int, used: float, name: str = "ann") -> Quota:
    return Quota(tenant_id=uuid4(), tenant=name, megabytes=megabytes, used=int(used * MEGABYTE))


@pytest.mark.parametrize(
    "megabytes, used, standing",
    [
        (0, 10_000, Standing.OK),
        (10, 0, Standing.OK),
        (10, 7.9, Standing.OK),
        (10, 8, Standing.WARNING),
        (10, 9.99, Standing.WARNING),
        (10, 10, Standing.FULL),
        (10, 30, Standing.FULL),
    ],
)
def test_standing(megabytes: int, used: float, standing: Standing) -> None:
    assert quota(megabytes, used).standing is standing


def test_room_is_never_negative() -> None:
    assert quota(10, 12).left == 0
    assert quota(0, 12).left is None
    assert quota(10, 4).left == 6 * MEGABYTE


def test_one_who_has_room_is_enough() -> None:
    full, half, free = quota(10, 10, "full"), quota(10, 5, "half"), quota(0, 99, "free")
    assert room_of([full, half]).left == 5 * MEGABYTE
    assert room_of([full, half, free]) == Room()
    assert room_of([]) == Room(), "nobody watches it by a quota"
    refused = room_of([full])
    assert refused.left == 0
    assert refused.reason == f"{REFUSED}full (10 MB) is used up"


def test_a_room_fills() -> None:
    room = room_of([quota(1, 0)])
    assert room.takes(MEGABYTE)
    assert not room.takes(MEGABYTE + 1)
    room.take(MEGABYTE - 10)
    assert room.takes(10)
    assert room.takes(None), "it is measured while it arrives"
    assert room.takes(0)
    room.take(10)
    assert not room.takes(None)
    assert not room.takes(0)
    assert Room().takes(10**15)
