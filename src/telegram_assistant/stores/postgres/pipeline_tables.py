"""Tables of what the pipeline makes of posts: steps, pictures, pages, and what the models cost."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from telegram_assistant.stores.postgres.tables import metadata


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


# How a post came here: the latest of each stage. What lacks the last one is published again (G3).
post_steps = Table(
    "post_steps",
    metadata,
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("outcome", Text, nullable=False),  # done | skipped | waiting | dead
    Column("note", Text, nullable=False, server_default=""),
    Column("content_hash", Text, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("duration_ms", Float, nullable=False),
    _now("at"),
)

# What is looked after in turns, one process at a time: how far it got, and the marks of engines that may forget.
upkeep = Table(
    "upkeep",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", JSONB, nullable=False),
    _now("at"),
)

# What was seen on a picture, once for all posts and tenants that have it.
picture_results = Table(
    "picture_results",
    metadata,
    Column("sha256", Text, ForeignKey("media_objects.sha256", ondelete="CASCADE"), primary_key=True),
    Column("identity", Text, nullable=False),  # provider, model and prompt
    Column("fingerprint", JSONB),  # what is left after scaling and recompression
    Column("bands", ARRAY(Integer), nullable=False),  # pieces of its hash: near pictures share at least one
    Column("shared", Boolean, nullable=False, server_default=text("false")),  # the result of a near duplicate
    Column("data", JSONB, nullable=False),
    _now("created_at"),
    Index("ix_picture_results_bands", "bands", postgresql_using="gin"),
)

# Pages by their canonical address; text only, never HTML.
web_pages = Table(
    "web_pages",
    metadata,
    Column("url", Text, primary_key=True),
    Column("title", Text, nullable=False, server_default=""),
    Column("text", Text, nullable=False, server_default=""),
    Column("description", Text, nullable=False, server_default=""),
    Column("language", Text, nullable=False, server_default=""),
    Column("site", Text, nullable=False, server_default=""),
    Column("published", Text, nullable=False, server_default=""),
    Column("content_hash", Text, nullable=False, server_default=""),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("problem", Text),  # why there is no text
    _now("fetched_at"),
)

# The links of a post that were followed: as it stands there, and the page it led to.
post_pages = Table(
    "post_pages",
    metadata,
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    Column("link", Text, primary_key=True),
    Column("url", Text, ForeignKey("web_pages.url", ondelete="CASCADE"), nullable=False),
    Index(None, "url"),
)

# Answers of models by what they were asked; only what succeeded.
model_results = Table(
    "model_results",
    metadata,
    Column("key", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    _now("created_at"),
    Index(None, "created_at"),
)

model_usage = Table(
    "model_usage",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("day", DateTime(timezone=True), primary_key=True),  # its beginning, UTC
    Column("ability", Text, primary_key=True),
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("tokens_in", BigInteger, nullable=False),
    Column("tokens_out", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
    Column("latency_ms", Float, nullable=False),
)

# What was spent of the budgets (decision 0017). An owner is a tenant, a site, or `all`.
budget_spending = Table(
    "budget_spending",
    metadata,
    Column("period", DateTime(timezone=True), primary_key=True),  # its beginning, UTC
    Column("owner", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("spent", BigInteger, nullable=False),
)

# Calls that are under way, and what they reserved.
budget_calls = Table(
    "budget_calls",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("ends_at", DateTime(timezone=True), nullable=False),  # then it counts as spent
    Index(None, "owner", "kind"),
)

# What one process at a time may do, such as opening an account's session. It ends by time, so the dead hold nothing.
leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),  # account:<id> | session:<digest> | process:<owner>
    Column("owner", Text, nullable=False),
    Column("until", DateTime(timezone=True), nullable=False),
    Column("fence", BigInteger, nullable=False, server_default="0"),  # grows when the owner changes
)
