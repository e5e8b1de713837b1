"""`tga channels explain`: when a channel is looked at next, and why then."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import typer
from rich.console import Console

from telegram_assistant.commands.channels import AsJson, Reference, find
from telegram_assistant.commands.session import with_runtime
from telegram_assistant.config import Settings
from telegram_assistant.domain.polling import Explanation, Reason, explain, weight_of
from telegram_assistant.domain.request_price import first_price
from telegram_assistant.errors import Fatal
from telegram_assistant.ingest.polling import LEARN_FROM, known_rhythm
from telegram_assistant.ingest.role import polling_rules
from telegram_assistant.runtime import Runtime
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.rhythms import Habit, Rhythms

console = Console()


def explain_channel(channel: Reference, as_json: AsJson = False) -> None:
    """Say when a channel is looked at next, and why then."""

    async def work(runtime: Runtime) -> None:
        found = await find(Channels(runtime.database), channel)
        habit = await Rhythms(runtime.database).habit(found.id, since=runtime.clock() - LEARN_FROM)
        if habit is None or found.status == "removed":
            raise Fatal(f"{found.shown} is not watched any more: tga channels revive {channel}")
        reasons = _other_reasons(found, habit, runtime.settings, runtime.clock())
        explanation = None if reasons else _explanation(found, habit, runtime.settings)
        sentences = explanation.sentences() if explanation else reasons
        if as_json:
            values = {"channel": found.shown, "next_visit_at": found.next_visit_at, "sentences": sentences}
            details = asdict(explanation) if explanation else None
            typer.echo(json.dumps({**values, "details": details}, ensure_ascii=False, indent=2, default=_plain))
            return
        for sentence in sentences:
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    with_runtime(work)


def _other_reasons(channel: Channel, habit: Habit, settings: Settings, now: datetime) -> list[str]:
    """Why a channel is looked at then, if not because of its rhythm."""
    zone, at = ZoneInfo(habit.timezone), channel.next_visit_at
    every = f"{settings.parser_scheduler_interval_sec:g} s"
    if channel.failures:
        again = f"; it is tried again at {at.astimezone(zone):%H:%M:%S %Z}" if at is not None else ""
        given_up = " (it was given up: tga channels revive)" if channel.status == "dead" else ""
        return [f"The last {channel.failures} visits failed{given_up}{again}: {channel.last_error}."]
    if at is not None and at <= now:
        return ["It is due now: its time has come, or somebody asked for it."]
    if not settings.feature_predictive_polling_enabled:
        return [f"Every channel is visited on every tick, each {every}: FEATURE_PREDICTIVE_POLLING_ENABLED is off."]
    if at is None or habit.planned_at is None:
        return [f"No time is planned for it yet: the next tick, within {every}, visits it."]
    if at != habit.planned_at:
        then = f"{at.astimezone(zone):%H:%M:%S %Z}"
        return [f"Next look at {then}: an album may still be growing, or the account must wait until then."]
    return []


def _explanation(channel: Channel, habit: Habit, settings: Settings) -> Explanation:
    """The decision again, from the values of then."""
    rhythm, zone, rules = known_rhythm(habit.rhythm), ZoneInfo(habit.timezone), polling_rules(settings)
    if rhythm is None or channel.last_success_at is None or habit.planned_at is None:
        raise Fatal(f"{channel.shown}: its rhythm was written by another version; it is learned anew at the next visit")
    price = habit.plan_price or first_price(rules.fixed)
    weight = weight_of(habit.priority)
    made = explain(rhythm, channel.last_success_at, price, weight=weight, zone=zone, rules=rules)
    made = replace(made, at=habit.planned_at.astimezone(zone))
    return made if habit.plan_price is not None else replace(made, reason=Reason.NEW)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON")
