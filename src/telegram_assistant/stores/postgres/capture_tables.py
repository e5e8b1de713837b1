"""What capture remembers beside the ledger: Telegram's count of a channel's changes, audits, unreadable messages."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Index, Integer, Table, Text, text

from telegram_assistant.stores.postgres.tables import metadata

_NOW = text("now()")


def _channel() -> Column[object]:
    return Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE"), primary_key=True)


channel_audits = Table(
    "channel_audits",
    metadata,
    _channel(),
    Column("pts", BigInteger),  # every change of the channel up to this number is stored; null: not known
    # A full audit: every stored post is read again, the newest first.
    Column("wanted_at", DateTime(timezone=True)),  # null: none is waited for
    Column("reason", Text),  # why the last one was: away | too_long | lost | refused | asked
    Column("began_at", DateTime(timezone=True)),  # of the one under way
    Column("below_id", BigInteger),  # it has read what is stored from this id on
    Column("done", Integer, nullable=False, server_default=text("0")),  # posts
    Column("total", Integer, nullable=False, server_default=text("0")),
    Column("found", Integer, nullable=False, server_default=text("0")),  # disagreements, all repaired
    Column("audited_at", DateTime(timezone=True)),  # when the last one ended
    # Whose turn it is; moved ahead by a process that works on it, so that others leave it alone.
    Column("next_at", DateTime(timezone=True), nullable=False, server_default=text("now() + interval '1 hour'")),
    Index(None, "next_at"),
    Index("ix_channel_audits_wanted", "next_at", postgresql_where=text("wanted_at IS NOT NULL")),
)

# Messages that exist and that our version of Telethon cannot parse.
unreadable_messages = Table(
    "unreadable_messages",
    metadata,
    _channel(),
    Column("message_id", BigInteger, primary_key=True),
    Column("reader", Text, nullable=False),  # what could not read it: another one tries at once
    Column("tries", Integer, nullable=False, server_default=text("1")),
    Column("first_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("next_at", DateTime(timezone=True), nullable=False),
)
