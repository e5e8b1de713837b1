"""The Policy Engine of vision: which pictures are looked at, and by whom. A decision names its rule and its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

MEGABYTE = 1024 * 1024


class Provider(StrEnum):
    """Who looks at a picture."""

    LOCAL = "local"  # measures on this machine
    REMOTE = "remote"  # the model of the settings


class NsfwAction(StrEnum):
    """What becomes of pictures that are not for all eyes."""

    KEEP = "keep"
    LOCAL = "local"  # never sent to a remote model
    SKIP = "skip"  # no result is kept


class RuleAction(StrEnum):
    """What a rule of the file's own says."""

    SKIP = "skip"
    LOCAL = "local"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """What is known about a picture before, or after, somebody looked at it."""

    mime: str
    size: int  # bytes
    channel_id: int  # bare
    username: str | None = None
    width: int | None = None
    height: int | None = None
    position: int = 0  # in its album, from 0; 0 for a single picture
    nsfw_score: float | None = None  # None: not known yet
    remote: bool = False  # whether a remote model is configured


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a picture is looked at, by whom, and which rule says so for what reason."""

    allowed: bool
    provider: Provider | None
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One `[[rules]]` of the file; what it does not name it does not ask about."""

    name: str
    action: RuleAction
    channels: frozenset[str | int] = frozenset()
    types: frozenset[str] = frozenset()
    larger_than_mb: float = 0.0

    def speaks_of(self, facts: PictureFacts) -> bool:
        if self.channels and not _names(self.channels, facts):
            return False
        if self.types and not _matches(facts.mime, self.types):
            return False
        return facts.size >= self.larger_than_mb * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One file; `vision_policy.toml` explains each."""

    types: frozenset[str] = frozenset({"image/*"})
    max_mb: float = 15.0
    min_side: int = 0
    per_album: int = 10
    skip_channels: frozenset[str | int] = frozenset()
    nsfw_action: NsfwAction = NsfwAction.LOCAL
    nsfw_threshold: float = 0.8
    provider: Provider = Provider.REMOTE
    rules: tuple[Rule, ...] = ()

    def decide(self, facts: PictureFacts) -> Decision:
        """The first that objects decides; then the first rule that speaks of it; then the provider of the file."""
        for name, objects in _OBJECTIONS:
            if reason := objects(self, facts):
                return Decision(False, None, name, reason)
        speaking = next((rule for rule in self.rules if rule.speaks_of(facts)), None)
        if speaking is None:
            chosen, name, why = self.provider, "provider", f"no rule speaks of it, and the provider is {self.provider}"
        elif speaking.action is RuleAction.SKIP:
            return Decision(False, None, speaking.name, f"the rule {speaking.name!r} skips it")
        else:
            chosen, name = Provider(speaking.action), speaking.name
            why = f"the rule {speaking.name!r} gives it to the {chosen} provider"
        return self._sent(facts, chosen, name, why)

    def needs_score(self, decision: Decision) -> bool:
        """Whether the NSFW score must be known before anything else is done with this picture."""
        if not decision.allowed or self.nsfw_action is NsfwAction.KEEP:
            return False
        return self.nsfw_action is NsfwAction.SKIP or decision.provider is Provider.REMOTE

    def is_nsfw(self, score: float | None) -> bool:
        return score is not None and score >= self.nsfw_threshold

    def _sent(self, facts: PictureFacts, chosen: Provider, name: str, why: str) -> Decision:
        if chosen is Provider.REMOTE and not facts.remote:
            return Decision(True, Provider.LOCAL, name, f"{why}, but no remote model is configured")
        if chosen is Provider.REMOTE and self.nsfw_action is NsfwAction.LOCAL and self.is_nsfw(facts.nsfw_score):
            reason = f"its NSFW score {facts.nsfw_score:.2f} is at least {self.nsfw_threshold:g}: it stays here"
            return Decision(True, Provider.LOCAL, "nsfw", reason)
        return Decision(True, chosen, name, why)


def _channel_skipped(policy: Policy, facts: PictureFacts) -> str | None:
    if not _names(policy.skip_channels, facts):
        return None
    return f"pictures of {'@' + facts.username if facts.username else facts.channel_id} are skipped"


def _type_refused(policy: Policy, facts: PictureFacts) -> str | None:
    if _matches(facts.mime, policy.types):
        return None
    return f"{_kind(facts.mime) or 'a file without a type'} is none of {', '.join(sorted(policy.types)) or 'no types'}"


def _too_large(policy: Policy, facts: PictureFacts) -> str | None:
    if facts.size <= policy.max_mb * MEGABYTE:
        return None
    return f"it has {facts.size / MEGABYTE:.1f} MB, at most {policy.max_mb:g} MB are looked at"


def _too_small(policy: Policy, facts: PictureFacts) -> str | None:
    if facts.width is None or facts.height is None or min(facts.width, facts.height) >= policy.min_side:
        return None
    return f"it has {facts.width}x{facts.height} pixels, at least {policy.min_side} on each side are looked at"


def _album_full(policy: Policy, facts: PictureFacts) -> str | None:
    if facts.position < policy.per_album:
        return None
    return f"it is picture {facts.position + 1} of its album, {policy.per_album} are looked at"


def _nsfw_skipped(policy: Policy, facts: PictureFacts) -> str | None:
    if policy.nsfw_action is not NsfwAction.SKIP or not policy.is_nsfw(facts.nsfw_score):
        return None
    return f"its NSFW score {facts.nsfw_score:.2f} is at least {policy.nsfw_threshold:g}: no result is kept"


_OBJECTIONS: tuple[tuple[str, Callable[[Policy, PictureFacts], str | None]], ...] = (
    ("skip_channels", _channel_skipped),
    ("types", _type_refused),
    ("max_mb", _too_large),
    ("min_side", _too_small),
    ("per_album", _album_full),
    ("nsfw", _nsfw_skipped),
)


def _names(channels: frozenset[str | int], facts: PictureFacts) -> bool:
    return facts.channel_id in channels or (facts.username is not None and facts.username.lower() in channels)


def _kind(mime: str) -> str:
    return mime.partition(";")[0].strip().lower()


def _matches(mime: str, types: frozenset[str]) -> bool:
    kind = _kind(mime)
    return kind in types or f"{kind.partition('/')[0]}/*" in types
