"""`tga audit`: by the process that captures, which has the accounts; where none runs, by the command itself."""

from __future__ import annotations

from telegram_assistant.cli.channels import (
    PATIENCE_SECONDS,
    POLL_SECONDS,
    Reference,
    console,
    find,
)
from telegram_assistant.cli.session import with_runtime
from telegram_assistant.domain.source import SourceError
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.audit import Auditor, Finding, ask_audit
from telegram_assistant.stores.postgres.accounts import processes
from telegram_assistant.stores.postgres.audits import Audits
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.wiring.demo import join_demo
from telegram_assistant.wiring.ingest import open_pool
from telegram_assistant.wiring.models import open_saver
from telegram_assistant.wiring.runtime import Runtime


def audit(channel: Reference) -> None:
    async def work(runtime: Runtime) -> None:
        found = await find(Channels(runtime.database), channel)
        # Only one process may use an account, and one that captures has it.
        captures = await processes(runtime.database)
        finding = await (_asked_audit if captures else _own_audit)(runtime, found)
        console.print(
            f"{found.shown}: {finding.audited} ids read again; repaired: {finding.missing} missing,"
            f" {finding.edited} edited, {finding.deleted} deleted",
            highlight=False,
            markup=False,
        )

    with_runtime(work)


async def _asked_audit(runtime: Runtime, channel: Channel) -> Finding:
    answer = await ask_audit(runtime.redis, channel.id, seconds=PATIENCE_SECONDS, poll=POLL_SECONDS)
    if answer is None:
        raise Fatal(
            f"{channel.shown}: it was not audited within {PATIENCE_SECONDS:.0f} s; see the health page of ingest"
        )
    if answer.finding is None:
        raise Fatal(f"{channel.shown} cannot be audited now: {answer.error}")
    return answer.finding


async def _own_audit(runtime: Runtime, channel: Channel) -> Finding:
    if runtime.demo:
        await join_demo(runtime)
    channels = Channels(runtime.database)
    pool = await open_pool(runtime, channels)
    await runtime.start_task("accounts", pool.keep)
    audits = Audits(runtime.database)
    auditor = Auditor(channels, audits, open_saver(runtime), pool, every_seconds=0, clock=runtime.clock)
    try:
        return await auditor.audit(channel)
    except SourceError as exc:
        raise Fatal(f"{channel.shown} cannot be audited now: {exc}") from exc
