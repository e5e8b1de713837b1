"""From the demo to an account: people, and what was read from public previews or exports, come along.

What was made up stays behind.
"""

from __future__ import annotations

import asyncpg

from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.channels import CAN_BE_READ, REAL, WATCHED

DRAFT = "tga_new"
# With a channel goes all that hangs on it. What else was made from the demo's posts, or tells how far it is, goes too.
LEFT_BEHIND = (
    f"DELETE FROM channels WHERE NOT {REAL}",
    *(
        f"DELETE FROM {table}"
        for table in ("outbox", "dead_letters", "trends", "digest_issues", "notices", "leases", "upkeep", "job_runs")
    ),
    "DELETE FROM telegram_accounts",  # of a Telegram that was simulated
    (
        "UPDATE channels SET planned_at = NULL, leased_by = NULL, leased_until = NULL,"
        f" next_visit_at = CASE WHEN {CAN_BE_READ} THEN now() END"
    ),
)

log = get_logger(__name__)


async def carry_over(url: str, demo: str) -> bool:
    """Before the first start with an account: take over the demo's database, if it holds a real channel or a user.

    The demo keeps its own. A copy is made ready beside and renamed, so a start that was killed begins again.
    """
    if await _is_used(url) or not await _is_worth_it(url, demo):
        return False
    admin = await asyncpg.connect(url, database="postgres")
    try:
        await admin.execute(f"DROP DATABASE IF EXISTS {DRAFT}")
        await admin.execute(f"CREATE DATABASE {DRAFT} TEMPLATE {demo}")
        draft = await asyncpg.connect(url, database=DRAFT)
        try:
            async with draft.transaction():
                for statement in LEFT_BEHIND:
                    await draft.execute(statement)
        finally:
            await draft.close()
        name = await _name(url)
        await admin.execute(f"DROP DATABASE {name}")
        await admin.execute(f"ALTER DATABASE {DRAFT} RENAME TO {name}")
    finally:
        await admin.close()
    log.info("channels_carried_over", source=demo)
    return True


async def _is_used(url: str) -> bool:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("SELECT to_regclass('alembic_version')") is not None
    finally:
        await connection.close()


async def _name(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return str(await connection.fetchval("SELECT quote_ident(current_database())"))
    finally:
        await connection.close()


async def _is_worth_it(url: str, demo: str) -> bool:
    try:
        connection = await asyncpg.connect(url, database=demo)
    except asyncpg.InvalidCatalogNameError:
        return False
    try:
        if await connection.fetchval("SELECT to_regclass('channels')") is None:
            return False
        statement = (
            f"SELECT EXISTS (SELECT FROM channels WHERE {REAL} AND {WATCHED})"
            " OR EXISTS (SELECT FROM users WHERE password_hash IS NOT NULL)"
        )
        return bool(await connection.fetchval(statement))
    finally:
        await connection.close()
