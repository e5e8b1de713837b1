"""An alert in words, made when it is sent: what was deleted or hidden meanwhile is not in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any
from uuid import UUID

from telegram_assistant.domain.alerting import Action, Delivery, Message, Topic
from telegram_assistant.stores.postgres.alerts import AlertDeliveries
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from telegram_assistant.stores.postgres.watched_posts import WatchedPosts

LONGEST_TEXT = 1_000
LONGEST_COMPARED = 4_000  # characters; comparing takes the product of two lengths
MOST_NAMES = 5
SAME_WORDS = 6  # that are shown around a change

_WORDS = re.compile(r"\S+")
_SEVERITIES = {"gone": "error", "failing": "error", "full": "error", "holes": "warning", "warning": "warning"}
_TITLES = {
    "edited": "{title}: a post that you watch was edited",
    "deleted": "{title}: a post that you watch was deleted",
    "gone": "{title} cannot be read any more",
    "failing": "{title} cannot be read since {since}",
    "holes": "{title}: {unknown} messages cannot be fetched",
    "warning": "{percent} % of the storage quota of {megabytes} MB are used",
    "full": "The storage quota of {megabytes} MB is used up: files are not downloaded any more",
}
_OVER = {
    "gone": "{title} can be read again",
    "failing": "{title} can be read again",
    "holes": "{title}: nothing is missing any more",
    "warning": "There is room in the storage again",
    "full": "There is room in the storage again",
}


@dataclass(frozen=True)
class Words:
    """`base`: the address of our pages, if it is known."""

    posts: VisiblePosts
    watched: WatchedPosts
    deliveries: AlertDeliveries
    base: str | None

    async def of(self, delivery: Delivery) -> Message | None:
        """None: what it is about is not there any more."""
        content, topic = delivery.content, Topic(str(delivery.content.get("topic", "post")))
        if topic is Topic.SEARCH:
            return await self._found(delivery, UUID(str(content["post_id"])))
        if topic is Topic.POST:
            text = await self._edit(delivery.tenant_id, content)
            return _message(
                delivery, topic, text=text, url=self._page(f"/posts/{content['post_id']}") or str(content["url"])
            )
        if topic is Topic.CHANNEL:
            error = str(content.get("error") or "")
            name = content.get("username")
            address = self._page(f"/channels/{content['channel_id']}") or (f"https://t.me/{name}" if name else None)
            return _message(delivery, topic, text="" if delivery.action is Action.RESOLVE else error, url=address)
        return _message(delivery, topic, url=self._page("/storage"))

    async def _found(self, delivery: Delivery, post_id: UUID) -> Message | None:
        shown = (await self.posts.posts(delivery.tenant_id, [post_id])).get(post_id)
        if shown is None or shown.deleted:
            return None
        names = await self.deliveries.searches(delivery.tenant_id, post_id, limit=MOST_NAMES + 1)
        told = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
        return Message(
            topic=Topic.SEARCH,
            action=delivery.action,
            dedup_key=delivery.dedup_key,
            title=f"{shown.channel_title}: {told or 'a saved search'}",
            text=shown.text[:LONGEST_TEXT],
            url=self._page(f"/posts/{post_id}") or shown.url,
            at=delivery.created_at,
            details={"posted": shown.posted_at.isoformat(), "in Telegram": shown.url},
        )

    async def _edit(self, tenant_id: UUID, content: Mapping[str, Any]) -> str:
        if content.get("code") != "edited":
            return ""
        old, new = int(content["from"]), int(content["to"])
        texts = await self.watched.texts(tenant_id, UUID(str(content["post_id"])), [old, new])
        if old not in texts or new not in texts:
            return ""
        return change_in_words(texts[old], texts[new]) or "only its formatting or media changed"

    def _page(self, path: str) -> str | None:
        return f"{self.base.rstrip('/')}{path}" if self.base else None


def change_in_words(old: str, new: str) -> str:
    """What went in [-brackets-], what came in {+braces+}, a few words around; empty when nothing changed."""
    before, after = _WORDS.findall(old[:LONGEST_COMPARED]), _WORDS.findall(new[:LONGEST_COMPARED])
    parts: list[str] = []
    changed = False
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(_shortened(after[j1:j2]))
            continue
        changed = True
        gone, come = " ".join(before[i1:i2]), " ".join(after[j1:j2])
        parts += [f"[-{gone}-]"] * bool(gone) + [f"{{+{come}+}}"] * bool(come)
    return " ".join(parts)[:LONGEST_TEXT] if changed else ""


def _shortened(words: list[str]) -> str:
    if len(words) <= 2 * SAME_WORDS:
        return " ".join(words)
    return f"{' '.join(words[:SAME_WORDS])} … {' '.join(words[-SAME_WORDS:])}"


def _message(delivery: Delivery, topic: Topic, *, text: str = "", url: str | None = None) -> Message:
    content = delivery.content
    code = str(content.get("code", ""))
    words = _OVER if delivery.action is Action.RESOLVE else _TITLES
    return Message(
        topic=topic,
        action=delivery.action,
        dedup_key=delivery.dedup_key,
        title=words[code].format(**content),
        text=text,
        url=url,
        severity=_SEVERITIES.get(code, "info"),
        at=delivery.created_at,
    )
