"""The three kinds of places: how each is given, recognised and spoken to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from telegram_assistant.crawl.network import Answer, Poster
from telegram_assistant.domain.alerting import Action, Message, Way
from telegram_assistant.domain.retries import seconds_to_wait
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.search.alerts import Webhooks, json_body, new_secret

ROUTING_KEY = re.compile(r"[0-9A-Za-z]{32}", re.ASCII)
LONGEST_HEADER, LONGEST_SECTION = 150, 3_000  # Slack's limits
LONGEST_SUMMARY = 1_024  # PagerDuty's
NAME = "Telegram Assistant"
TOO_MANY = 429
GOOD = range(200, 300)
LATER = frozenset({408, 425, 429, *range(500, 600)})  # all else would be the same next time
_SLACK_SIGNS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

Secret = Mapping[str, str]  # what is sealed


class Limited(Retry):
    """We are too fast: no fault of this message, and true for the next ones too."""


@dataclass(frozen=True)
class Places:
    """Checks what people give, and sends. `slack_hosts`: where Slack's incoming webhooks are."""

    poster: Poster
    webhooks: Webhooks
    slack_hosts: frozenset[str]
    pagerduty_url: str

    def read(self, kind: Way, value: str) -> tuple[dict[str, str], str]:
        """What is to be sealed, and a hint to recognise it by. Raises Reject with what is wrong."""
        value = value.strip()
        if kind is Way.PAGERDUTY:
            if not ROUTING_KEY.fullmatch(value):
                raise Reject("an integration key of PagerDuty (Events API v2) has 32 letters and digits")
            return {"routing_key": value}, f"…{value[-4:]}"
        if kind is Way.WEBHOOK:
            url = self.webhooks.checked(value)
            return {"url": url, "secret": new_secret()}, url[:100]
        found = self.poster.checked(value)
        if found.host not in self.slack_hosts and (found.host, found.port) not in self.poster.allow:
            raise Reject(f"an incoming webhook of Slack is at {' or '.join(sorted(self.slack_hosts))}")
        return {"url": str(found)}, f"{found.host}…{found.path[-4:]}"

    async def send(self, kind: Way, secret: Secret, message: Message) -> None:
        """Raises Retry, Limited where we are too fast, Reject where another try would be the same."""
        if kind is Way.WEBHOOK:
            await self.webhooks.send(secret["url"], secret["secret"], json_body(webhook_body(message)))
        elif kind is Way.SLACK:
            url = self.poster.checked(secret["url"])
            _judge("Slack", await self.poster.post(url, json_body(slack_body(message))))
        else:
            url = self.poster.checked(self.pagerduty_url)
            _judge("PagerDuty", await self.poster.post(url, json_body(pagerduty_body(message, secret["routing_key"]))))


def slack_body(message: Message) -> dict[str, Any]:
    """Blocks, with a plain text for notifications. Strangers' words are escaped: no links and no mentions of theirs."""
    mark = {"error": ":red_circle:", "critical": ":red_circle:", "warning": ":large_orange_circle:"}
    sign = ":large_green_circle:" if message.action is Action.RESOLVE else mark.get(message.severity, ":bell:")
    title = " ".join(message.title.split())[: LONGEST_HEADER - 25]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": f"{sign} {title}", "emoji": True}}
    ]
    if message.text:
        # The escaped text is longer: cut before, so that no escape is cut in two.
        text = message.text[: LONGEST_SECTION // 5].translate(_SLACK_SIGNS)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})
    link = [f"<{message.url.translate(_SLACK_SIGNS)}|Open>"] if message.url else []
    facts = [f"{name}: {value}"[:300].translate(_SLACK_SIGNS) for name, value in message.details.items()]
    elements = [{"type": "mrkdwn", "text": one} for one in [*link, *facts][:10]]
    if elements:
        blocks.append({"type": "context", "elements": elements})
    return {"text": title.translate(_SLACK_SIGNS), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def pagerduty_body(message: Message, routing_key: str) -> dict[str, Any]:
    """Events API v2: an event with the same key belongs to the same incident, and `resolve` ends it."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": message.action.value,
        "dedup_key": message.dedup_key,
    }
    if message.action is Action.RESOLVE:
        return event
    links = [{"href": message.url, "text": "Open"}] if message.url else []
    return event | {
        "client": NAME,
        "links": links,
        "payload": {
            "summary": " ".join(message.title.split())[:LONGEST_SUMMARY],
            "source": NAME,
            "severity": message.severity,
            "timestamp": message.at.isoformat(),
            "component": message.topic.value,
            "custom_details": {"text": message.text[:LONGEST_SECTION], **message.details},
        },
    }


def webhook_body(message: Message) -> dict[str, Any]:
    return {
        "type": "alert",
        "topic": message.topic.value,
        "action": message.action.value,
        "key": message.dedup_key,
        "title": message.title,
        "text": message.text,
        "url": message.url,
        "severity": message.severity,
        "at": message.at.isoformat(),
        "details": dict(message.details),
    }


def _judge(who: str, answer: Answer) -> None:
    if answer.status in GOOD:
        return
    said = f"{who} answered {answer.shown}"
    if answer.status == TOO_MANY:
        raise Limited(said, after=seconds_to_wait(answer.headers.get("retry-after"), datetime.now(UTC)) or 60.0)
    if answer.status in LATER:
        raise Retry(said)
    if answer.status in range(300, 400):
        raise Reject(f"{said}: redirects are not followed")
    raise Reject(f"{said}: check its address or key")
