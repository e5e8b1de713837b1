"""Which process works with which account: every account has one process, and every process its fair share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What a process is to do now."""

    keep: tuple[str, ...]
    take: tuple[str, ...]
    give: tuple[str, ...]  # to others who have too few


@dataclass(frozen=True, slots=True)
class Reach:
    """Which channels a process can read now: an account that was told a channel's hash, or one that may ask for it."""

    knowing: tuple[str, ...] = ()  # accounts of ours that may ask for pages now
    asking: bool = False  # whether one of them may look usernames up
    elsewhere: tuple[str, ...] = ()  # accounts that other processes read with
    living: tuple[str, ...] = ()  # all accounts that can be used, in all processes

    @property
    def stands_by(self) -> bool:
        """Others have all accounts that there are."""
        return bool(self.living) and len(self.elsewhere) == len(self.living)


def share(holders: Mapping[str, str | None], processes: Collection[str], me: str) -> Share:
    """`holders`: of each account that can be used the process that has it, None where none has.

    All who ask take turns, so a process that gives one up leaves it for the next. Nothing moves while the shares
    differ by one at most: a move costs an interruption.
    """
    everyone = {me, *processes}
    held = Counter(holder for holder in holders.values() if holder in everyone)
    mine = [account for account, holder in holders.items() if holder == me]
    free = [account for account, holder in holders.items() if holder not in everyone]
    least, rest = divmod(len(holders), len(everyone))
    most = least + bool(rest)
    missing = sum(max(0, least - held[other]) for other in everyone - {me})
    # Those below their share go first: beyond the least share, take only what they leave.
    room = max(0, least - len(mine)) + max(0, min(len(free) - missing, most - max(least, len(mine))))
    take = free[:room]
    surplus = min(len(mine) - least, max(len(mine) - most, missing - len(free)))
    give = mine[len(mine) - max(0, surplus) :]
    return Share(tuple(account for account in mine if account not in give), tuple(take), tuple(give))
