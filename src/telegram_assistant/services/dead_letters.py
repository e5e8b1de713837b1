"""Dead letters of a tenant: one, replayed, dropped."""

from __future__ import annotations

from telegram_assistant.domain.access import Caller
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stages.replay import replay
from telegram_assistant.stores.postgres.pipeline import DeadLetters, Letter, OwnLetters

AT_ONCE = 10_000


async def one_letter(letters: OwnLetters, letter_id: int) -> Letter:
    found = await letters.get(letter_id)
    if found is None:
        raise not_found("dead letter")
    return found


async def replay_letters(services: Services, admin: Caller, letters: list[Letter]) -> tuple[int, list[int]]:
    """How many were replayed, and the numbers of those that cannot be."""
    done = await replay(services.redis, DeadLetters(services.database), letters)
    await services.access.record(admin, "dead_letters_replayed", details={"letters": len(done)})
    left = {letter.id for letter in letters} - {letter.id for letter in done}
    return len(done), sorted(left)


async def drop_letters(services: Services, admin: Caller, letters: list[Letter]) -> int:
    done = await DeadLetters(services.database).drop([letter.id for letter in letters])
    await services.access.record(admin, "dead_letters_dropped", details={"letters": done})
    return done
