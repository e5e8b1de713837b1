"""`tga channels explain`: when a channel is looked at next, and why then."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console

from telegram_assistant.cli.channels import AsJson, Reference, find
from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.polling import LEARN_FROM, Why, explain_next
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.rhythms import Rhythms
from telegram_assistant.wiring.runtime import Runtime

console = Console()


def explain_channel(channel: Reference, as_json: AsJson = False) -> None:
    async def work(runtime: Runtime) -> None:
        found = await find(Channels(runtime.database), channel)
        habit = await Rhythms(runtime.database).habit(found.id, since=runtime.clock() - LEARN_FROM)
        if habit is None or found.status == "removed":
            raise Fatal(f"{found.shown} is not watched any more: tga channels revive {channel}")
        explained = explain_next(found, habit, runtime.settings, runtime.clock())
        sentences = explained.sentences()
        if explained.why is Why.UNREADABLE:
            raise Fatal(f"{found.shown}: {sentences[0]}")
        if as_json:
            values = {"channel": found.shown, "next_visit_at": found.next_visit_at, "sentences": sentences}
            details = asdict(explained.decision) if explained.decision else None
            print_json({**values, "details": details})
            return
        for sentence in sentences:
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    with_runtime(work)
