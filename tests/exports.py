"""Writes exports as Telegram Desktop writes them, for tests: of today, of before 2021, and as HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from html import escape
from pathlib import Path
from typing import Any

CHANNEL = 1878264527
START = datetime(2024, 3, 1, 9, tzinfo=UTC)
EAST = timezone(timedelta(hours=3))

Message = dict[str, Any]


def at(number: int) -> datetime:
    return START + timedelta(minutes=number)


def message(number: int, text: Any = None, **fields: Any) -> Message:
    """As today's version writes it; `text` may be a list of parts."""
    when = fields.pop("when", at(number))
    parts = text if isinstance(text, list) else [{"type": "plain", "text": f"post {number}" if text is None else text}]
    plain = [part["text"] if part["type"] == "plain" else part for part in parts]
    return {
        "id": number,
        "type": "message",
        **dated("date", when),
        "from": "News",
        "from_id": f"channel{CHANNEL}",
        **fields,
        "text": plain[0] if len(plain) == 1 and isinstance(plain[0], str) else plain,
        "text_entities": [part for part in parts if part["text"]],
    }


def dated(name: str, when: datetime) -> Message:
    local = when.astimezone(EAST).replace(tzinfo=None).isoformat()
    return {name: local, f"{name}_unixtime": str(int(when.timestamp()))}


def edited(number: int, text: str, when: datetime) -> Message:
    return message(number, text, **dated("edited", when))


def chat(messages: Sequence[Message], **fields: Any) -> dict[str, Any]:
    return {"name": "News", "type": "public_channel", "id": CHANNEL, **fields, "messages": list(messages)}


def old(told: Message) -> Message:
    """The same message as versions before 2021 wrote it: without seconds since 1970, and never edited was 1970."""
    left = {key: value for key, value in told.items() if not key.endswith("_unixtime") and key != "text_entities"}
    left.pop("from_id", None)
    return {**left, "edited": left.get("edited", "1970-01-01T03:00:00")}


def old_account(messages: Sequence[Message]) -> dict[str, Any]:
    inside = chat([old(one) for one in messages], id=CHANNEL + 2**33)
    return {
        "about": "Here is the data",
        "contacts": {"about": "", "list": []},
        "chats": {"about": "", "list": [inside]},
    }


def write_json(folder: Path, content: Mapping[str, Any], name: str = "result.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), "utf-8")
    return path


def html_page(messages: Sequence[str], title: str = "News") -> str:
    return f"""<!DOCTYPE html>
<html>
 <head><meta charset="utf-8"/><title>Exported Data</title></head>
 <body onload="CheckLocation();">
  <div class="page_wrap">
   <div class="page_header">
    <div class="content">
     <div class="text bold">
{escape(title)}{" "}
     </div>
    </div>
   </div>
   <div class="page_body chat_page">
    <div class="history">
     <div class="message service" id="message-1">
      <div class="body details">
1 March 2024
      </div>
     </div>
{"".join(messages)}
    </div>
   </div>
  </div>
 </body>
</html>
"""


def html_message(
    number: int,
    text: str | None = None,
    *,
    inside: str = "",
    offset: str = " UTC+03:00",
    who: str = "News",
    **fields: Any,
) -> str:
    when = fields.pop("when", at(number)).astimezone(EAST)
    words = f"post {number}" if text is None else text
    body = f'<div class="text">\n{words}\n       </div>' if words else ""
    return f"""
     <div class="message default clearfix" id="message{number}">
      <div class="body">
       <div class="pull_right date details" title="{when:%d.%m.%Y %H:%M:%S}{offset}">
{when:%H:%M}
       </div>
       <div class="from_name">
{escape(who)}{" "}
       </div>
{inside}
       {body}
      </div>
     </div>
"""


def write_html(folder: Path, pages: Sequence[Sequence[str]], title: str = "News") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, messages in enumerate(pages, 1):
        name = "messages.html" if number == 1 else f"messages{number}.html"
        (folder / name).write_text(html_page(messages, title), "utf-8")
    return folder
