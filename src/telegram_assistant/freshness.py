"""How long ago each thing last succeeded, and what has been tried in vain for too long: health by freshness.

Each part reports its work here, and health asks. It does not matter how many channels there are: an account that
does not answer, a stage that achieves nothing or an index that is away shows after `within` seconds.

How a part reports itself (`runtime.freshness` is the one registry of a process):

    freshness.watch("index", "vectors", Rule(within=120, cost="new posts are not found by meaning", remedy="start it"))
    with freshness.trying("index", "vectors"):      # succeeds or fails as the block does; a cancellation is neither
        await write(...)

or, where begin and end stand apart, `failed(kind, name, error)` and `succeeded(kind, name)`. A part that must show
success without being asked for anything (a listener, a loop) has a rule with `always=True`. `forget` ends the watch.
One part of a kind is a trouble while the others go on; all of a kind together are a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Any

from telegram_assistant.errors import in_words

WITHIN = 240.0  # seconds in vain that make a part stale, where it says nothing else
TRIES = 2  # one failure alone proves little
UNUSED = 900.0  # what was tried no more for so long is needed no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a part is stale, and what a person should know then."""

    within: float = WITHIN
    always: bool = False  # it must succeed even without requests
    each: bool = False  # every try must end in that time, even if others achieve something meanwhile
    shown: str = ""  # its name for people
    what: str = "has achieved nothing"
    cost: str = ""
    remedy: str = ""
    part_of: tuple[str, str] | None = None  # told only while that one is well

    def named(self, shown: str) -> Rule:
        """The same rule for a part with this name."""
        return replace(self, shown=shown)


@dataclass(frozen=True, slots=True)
class Stale:
    """A part that has been tried in vain for too long."""

    kind: str
    name: str
    rule: Rule
    seconds: float
    failures: int
    error: str | None
    failing: bool  # nothing of its kind is fresh

    def sentence(self, since: str) -> str:
        """What is wrong, since when, what it costs, what to do."""
        times = "one failed try" if self.failures == 1 else f"{self.failures} failed tries, the last"
        tries = f"{times}: {self.error}" if self.failures else "no answer"
        what = f"{self.kind} {self.rule.shown or self.name}: it {self.rule.what} since {since} ({tries})"
        return "; ".join(part for part in (what, self.rule.cost, self.rule.remedy) if part)


@dataclass(slots=True)
class Try:
    """What a block achieves; one that raises nothing may still say that it failed."""

    error: str | None = None


@dataclass(slots=True)
class _Part:
    began: float  # when it was first heard of
    rule: Rule = field(default_factory=Rule)
    flying: dict[int, float] = field(default_factory=dict)  # tries without an end yet
    vain_since: float | None = None  # when the first try began that failed since the last success
    tried_at: float | None = None
    succeeded_at: float | None = None
    failures: int = 0  # since the last success
    error: str | None = None
    recovered_at: float | None = None  # when it last succeeded after it was stale

    def stale_since(self, now: float) -> float | None:
        """From when on it was tried in vain, if that is too long ago."""
        within = self.rule.within
        since = [moment for moment in (self.vain_since, self.waits_since()) if moment is not None]
        if since and now - min(since) > within and self._in_vain(now):
            return min(since)
        quiet_since = self.began if self.succeeded_at is None else self.succeeded_at
        return quiet_since if self.rule.always and now - quiet_since > within else None

    def waits_since(self) -> float | None:
        """When the oldest try began that has no end yet, or what else succeeded since."""
        if not self.flying:
            return None
        began = min(self.flying.values())
        return began if self.succeeded_at is None or self.rule.each else max(began, self.succeeded_at)

    def _in_vain(self, now: float) -> bool:
        waits_since = self.waits_since()
        waits = 0.0 if waits_since is None else now - waits_since
        if waits > self.rule.within or (self.failures and waits > self.rule.within / 4):
            return True
        used = self.tried_at is not None and now - self.tried_at < max(UNUSED, 10 * self.rule.within)
        return self.failures >= TRIES and used


class Freshness:
    """One per process. Times are those of a clock that never jumps."""

    def __init__(self, ticks: Callable[[], float] = monotonic) -> None:
        self._ticks = ticks
        self._parts: dict[tuple[str, str], _Part] = {}
        self._numbers = count()

    def watch(self, kind: str, name: str, rule: Rule) -> None:
        """Say when a part is stale. Saying it again changes the rule and forgets nothing."""
        self._part(kind, name).rule = rule

    def forget(self, kind: str, name: str) -> None:
        """It is not there any more, which is no trouble."""
        self._parts.pop((kind, name), None)

    @contextmanager
    def trying(
        self, kind: str, name: str, *, answered: Callable[[Exception], bool] = lambda _exc: False
    ) -> Iterator[Try]:
        """A try around a block. `answered`: whether what it raises shows that the part is well."""
        attempt = Try()
        part, number = self._part(kind, name), next(self._numbers)
        began = part.flying[number] = part.tried_at = self._ticks()
        try:
            yield attempt
        except Exception as exc:
            if answered(exc):
                self.succeeded(kind, name)
            else:
                self.failed(kind, name, exc, began=began)
            raise
        else:
            if attempt.error is None:
                self.succeeded(kind, name)
            else:
                self.failed(kind, name, attempt.error, began=began)
        finally:
            part.flying.pop(number, None)

    def succeeded(self, kind: str, name: str) -> None:
        part, now = self._part(kind, name), self._ticks()
        if part.stale_since(now) is not None:
            part.recovered_at = now
        part.succeeded_at = part.tried_at = now
        part.failures, part.vain_since, part.error = 0, None, None

    def failed(self, kind: str, name: str, error: BaseException | str, *, began: float | None = None) -> None:
        """`began`: when the try began, where that is known."""
        part, now = self._part(kind, name), self._ticks()
        if part.vain_since is None:
            last = part.succeeded_at if part.succeeded_at is not None else part.began
            part.vain_since = now if began is None else max(began, last)
        part.tried_at = now
        part.failures += 1
        part.error = in_words(error)

    def seconds_since_success(self, kind: str, name: str) -> float:
        """Since it was first heard of, if it never succeeded."""
        part = self._part(kind, name)
        return self._ticks() - (part.began if part.succeeded_at is None else part.succeeded_at)

    def state(self, kind: str, name: str) -> dict[str, Any]:
        """What `report` says of one part."""
        return self._state(self._part(kind, name), self._ticks())

    def stale(self) -> list[Stale]:
        """All that was tried in vain for too long; of what belongs to another, only where that one is well."""
        now = self._ticks()
        since = {key: moment for key, part in self._parts.items() if (moment := part.stale_since(now)) is not None}
        whole = {kind for kind, _ in since} - {kind for kind, name in self._parts if (kind, name) not in since}
        return [
            Stale(*key, self._named(*key), now - since[key], part.failures, part.error, failing=key[0] in whole)
            for key, part in self._parts.items()
            if key in since and part.rule.part_of not in since and not self._of_an_outage_before(part)
        ]

    def _of_an_outage_before(self, part: _Part) -> bool:
        """It failed only while all that it belongs to did, and was not needed since."""
        whole = self._parts.get(part.rule.part_of) if part.rule.part_of else None
        if whole is None or whole.recovered_at is None or part.flying or part.tried_at is None:
            return False
        return part.tried_at < whole.recovered_at

    def report(self) -> dict[str, dict[str, dict[str, Any]]]:
        """For health: by kind and name, how long ago each succeeded and what it waits for."""
        now = self._ticks()
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for (kind, name), part in self._parts.items():
            found.setdefault(kind, {})[self._named(kind, name).shown or name] = self._state(part, now)
        return found

    def _named(self, kind: str, name: str) -> Rule:
        """The rule with a name for people: what belongs to another part has that one's name in its own."""
        rule = self._parts[kind, name].rule
        whole = self._parts.get(rule.part_of) if rule.part_of else None
        if rule.shown or whole is None or rule.part_of is None or not whole.rule.shown:
            return rule
        return rule.named(name.replace(rule.part_of[1], whole.rule.shown))

    def _state(self, part: _Part, now: float) -> dict[str, Any]:
        waits = now - min(part.flying.values()) if part.flying else None
        return {
            "status": "ok" if part.stale_since(now) is None else "stale",
            "succeeded_seconds_ago": None if part.succeeded_at is None else round(now - part.succeeded_at, 1),
            "waits_seconds": None if waits is None else round(waits, 1),
            "failures": part.failures,
            "error": part.error,
        }

    def _part(self, kind: str, name: str) -> _Part:
        part = self._parts.get((kind, name))
        if part is None:
            part = self._parts[kind, name] = _Part(self._ticks())
        return part
