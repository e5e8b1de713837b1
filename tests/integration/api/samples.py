"""Something of everything that a tenant can own, with ids to ask for, and what to send to each operation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text

from telegram_assistant.access.credentials import new_key
from tests.integration.search.archive import Archive

Town = Any  # of conftest.py, which cannot be imported
Person = Any

SECRET = "вертолётоноска"  # stands in everything that only its owner may read
PRIVATE = 300
MEDIA = b"\x89PNG\r\n\x1a\n of a test"


@dataclass
class Belongings:
    """Of one person. `ids`: by the name of the parameter in the path, or by `operation.parameter`."""

    archive: Archive
    tenant_id: UUID
    ids: dict[str, object] = field(default_factory=dict)

    def value(self, parameter: str, operation: str) -> object:
        found = self.ids.get(f"{operation}.{parameter}", self.ids.get(parameter))
        assert found is not None, f"{operation}: give a sample of {parameter} in samples.py"
        return found

    def secrets(self) -> list[str]:
        return [
            SECRET,
            *(str(value) for name, value in self.ids.items() if isinstance(value, UUID) and "own" not in name),
        ]

    async def everything(self) -> dict[str, int]:
        """How many rows there are of the tenant in each table that names one."""
        tables = await self.archive.rows(
            "SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id'"
            " AND table_schema = 'public' ORDER BY 1"
        )
        counts = {}
        for (table,) in tables:
            statement = f"SELECT count(*) FROM {table} WHERE tenant_id = :tenant"  # noqa: S608 - names of tables
            ((counts[table],),) = await self.archive.rows(statement, tenant=self.tenant_id)
        return counts


async def belongings_of(town: Town, person: Person) -> Belongings:
    archive: Archive = town.archive
    own = Belongings(archive, person.tenant_id)
    number = (await archive.rows("SELECT count(*) AS n FROM posts"))[0].n + 1
    post = await archive.post(number, f"{SECRET} {number}", channel=PRIVATE)
    await _subscribed(archive, person)
    file = sha256(MEDIA + str(number).encode()).hexdigest()
    await archive.run(
        "INSERT INTO media_objects (sha256, mime, size, storage_key) VALUES (:sha, 'image/png', 9, :sha)", sha=file
    )
    await archive.run(
        "INSERT INTO post_media (post_id, position, kind, sha256, status) VALUES (:post, 0, 'photo', :sha, 'stored')",
        post=post,
        sha=file,
    )
    own.ids |= {
        "channel_id": PRIVATE,
        "post_id": post,
        "sha256": file,
        "letter_id": await _letter(archive, person, post),
        "request_id": await _request(archive, person),
        "difference_id": await _difference(archive),
        "search_id": await _search(archive, person),
        "key_id": await _key(archive, person),
        "user_id": await _user(archive, person),
        "place_id": await _place(archive, person),
        "fetch_evicted_file.sha256": await _evicted(archive, number),
        "digest_id": (digest := await _digest(archive, person)),
        "issue_id": await _issue(archive, person, digest),
        "trend_id": await _trend(archive, person),
    }
    await archive.run(
        "INSERT INTO watched_posts (user_id, post_id, tenant_id, title) VALUES (:user, :post, :tenant, :title)",
        user=person.user_id,
        post=post,
        tenant=person.tenant_id,
        title=SECRET,
    )
    return own


async def _subscribed(archive: Archive, person: Person) -> None:
    """Again, after it was removed."""
    await archive.run(
        "UPDATE channels SET status = 'active', requested_from = 1, last_success_at = now() WHERE id = :channel",
        channel=PRIVATE,
    )
    await archive.run(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)"
        " ON CONFLICT DO NOTHING",
        tenant=person.tenant_id,
        user=person.user_id,
        channel=PRIVATE,
    )


async def _made(archive: Archive, statement: str, **values: object) -> Any:
    async with archive.database.begin() as connection:
        return await connection.scalar(text(statement), values)


async def _letter(archive: Archive, person: Person, post: UUID) -> Any:
    return await _made(
        archive,
        "INSERT INTO dead_letters (tenant_id, stage, stream, entry_id, payload, reason, attempts) VALUES"
        " (:tenant, 'tagging', 'stream:posts:parsed', :entry, jsonb_build_object('post_id', CAST(:post AS text)),"
        " :reason, 3) RETURNING id",
        tenant=person.tenant_id,
        entry=f"{uuid4().int % 10**12}-0",
        post=str(post),
        reason=SECRET,
    )


async def _difference(archive: Archive) -> Any:
    return await _made(
        archive,
        "INSERT INTO witness_differences (channel_id, message_id, kind, account_text, digest, first_at, last_at)"
        " VALUES (:channel, 1, 'only_account', :words, :digest, now(), now()) RETURNING id",
        channel=PRIVATE,
        words=SECRET,
        digest=uuid4().hex,
    )


async def _request(archive: Archive, person: Person) -> Any:
    return await _made(
        archive,
        "INSERT INTO channel_requests (tenant_id, user_id, reference) VALUES (:tenant, :user, :reference) RETURNING id",
        tenant=person.tenant_id,
        user=person.user_id,
        reference=f"@of_a_test_{uuid4().hex[:10]}",
    )


async def _search(archive: Archive, person: Person) -> Any:
    return await _made(
        archive,
        "INSERT INTO saved_searches (tenant_id, user_id, name, query) VALUES (:tenant, :user, :name, :name)"
        " RETURNING id",
        tenant=person.tenant_id,
        user=person.user_id,
        name=f"{SECRET} {uuid4().hex}",
    )


async def _key(archive: Archive, person: Person) -> Any:
    key = new_key()
    return await _made(
        archive,
        "INSERT INTO api_keys (tenant_id, user_id, name, prefix, sha256, role)"
        " VALUES (:tenant, :user, :name, :prefix, :sha256, 'member') RETURNING id",
        tenant=person.tenant_id,
        user=person.user_id,
        name=SECRET,
        prefix=key.prefix,
        sha256=key.sha256,
    )


async def _user(archive: Archive, person: Person) -> Any:
    return await _made(
        archive,
        "INSERT INTO users (tenant_id, name, login, role) VALUES (:tenant, :name, :login, 'member') RETURNING id",
        tenant=person.tenant_id,
        name=SECRET,
        login=f"user-{uuid4().hex[:10]}",
    )


async def _digest(archive: Archive, person: Person) -> Any:
    return await _made(
        archive,
        "INSERT INTO digests (tenant_id, user_id, name) VALUES (:tenant, :user, :name) RETURNING id",
        tenant=person.tenant_id,
        user=person.user_id,
        name=f"{SECRET} {uuid4().hex[:8]}",
    )


async def _issue(archive: Archive, person: Person, digest: UUID) -> Any:
    return await _made(
        archive,
        "INSERT INTO digest_issues (tenant_id, digest_id, scheduled_for, since, until, state, content) VALUES"
        " (:tenant, :digest, now(), now() - interval '1 day', now(), 'built', '{}') RETURNING id",
        tenant=person.tenant_id,
        digest=digest,
    )


async def _trend(archive: Archive, person: Person) -> Any:
    return await _made(
        archive,
        "INSERT INTO trends (tenant_id, kind, key, subjects, score, mentions, expected, channels, counts,"
        " baseline_days, window_start, window_end, first_at, last_at, found_at) VALUES (:tenant, 'phrase', :key,"
        " CAST(:subjects AS jsonb), 9, 9, 1, 3, '{1,2,9}', 28, now() - interval '1 day', now(), now(), now(), now())"
        " RETURNING id",
        tenant=person.tenant_id,
        key=f"{SECRET} {uuid4().hex[:8]}",
        subjects=json.dumps([{"kind": "phrase", "key": SECRET, "score": 9}]),
    )


async def _place(archive: Archive, person: Person) -> Any:
    return await _made(
        archive,
        "INSERT INTO alert_channels (tenant_id, name, secret) VALUES (:tenant, :name, 'sealed') RETURNING id",
        tenant=person.tenant_id,
        name=SECRET,
    )


async def _evicted(archive: Archive, number: int) -> str:
    """A file that was given up, of a post of its own."""
    digest = sha256(MEDIA + f"evicted {number}".encode()).hexdigest()
    post = await archive.post(number + 1, f"{SECRET} {number}", channel=PRIVATE)
    await archive.run(
        "INSERT INTO media_objects (sha256, mime, size, storage_key, evicted_at)"
        " VALUES (:sha, 'image/png', 9, :sha, now())",
        sha=digest,
    )
    await archive.run(
        "INSERT INTO post_media (post_id, position, kind, sha256, status, file_id)"
        " VALUES (:post, 0, 'photo', :sha, 'evicted', 'f')",
        post=post,
        sha=digest,
    )
    return digest


Body = dict[str, Any] | Callable[[Belongings], Any]

# What is sent, by the name of the operation; the others need nothing.
BODIES: dict[str, Body] = {
    "add_digest": {"name": "Morning"},
    "change_digest": {"name": "Evening"},
    "preview_new_digest": {"name": "Now"},
    "choose_interest": {"topic": "космос"},
    "run_job": {"job": "digests"},
    "add_alert_place": {"kind": "pagerduty", "value": "0" * 32},
    "add_channel": {"reference": "@somebody_new"},
    "add_channels": {"text": "@somebody_new\nt.me/another_one"},
    "ask_question": {"question": f"Что такое {SECRET}?"},
    "backfill_channel": {"since": "2026-01-01T00:00:00Z"},
    "change_alert_place": {"enabled": False},
    "change_channel": {"priority": 1},
    "change_channels": {"ids": [999], "action": "priority", "priority": 1},
    "change_saved_search": {"muted": True},
    "change_user": {"disabled": True},
    "create_key": {"name": "of a test"},
    "invite_user": {"name": "Somebody New"},
    "drop_dead_letters": lambda own: {"ids": [own.ids["letter_id"]]},
    "replay_dead_letters": lambda own: {"ids": [own.ids["letter_id"]]},
    "read_alerts": {},
    "save_search": {"query": "нефть", "name": "Oil"},
    "set_webhook": {"url": "https://example.org/hook"},
}
QUERIES: dict[str, dict[str, Any]] = {
    "export_channels": {"format": "csv"},
    "list_followed": {"link": "no link"},  # without one it would wait for capture
    "preview_channel": {"reference": "@secret_of_b"},
    "search_posts": {"q": SECRET},
}
