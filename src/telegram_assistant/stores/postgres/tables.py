"""The schema, as SQLAlchemy tables. Migrations are tested equal to it; times are always TIMESTAMPTZ (LESSONS 10, 18).

A public channel and its posts are stored once and shared (docs/decisions/0002): what a tenant sees of them
follows from `subscriptions`. Tables that name a tenant belong to it alone.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INT8MULTIRANGE, JSONB, UUID

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _time(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=not required)


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _tenant(*, required: bool = True) -> Column[object]:
    return Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=not required)


def _post() -> Column[object]:
    return Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True)


tenants = Table(
    "tenants",
    metadata,
    Column("id", UUID, primary_key=True, server_default=text("gen_random_uuid()")),
    Column("name", Text, nullable=False, unique=True),
    _now("created_at"),
    Column("storage_quota_mb", Integer),  # null: as the settings say; 0: none
)

users = Table(
    "users",
    metadata,
    Column("id", UUID, primary_key=True, server_default=text("gen_random_uuid()")),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("email", Text, unique=True),
    Column("telegram_user_id", BigInteger, unique=True),
    Column("role", Text, CheckConstraint("role IN ('system', 'admin', 'member')", "role"), nullable=False),
    _now("created_at"),
    Column("login", Text, CheckConstraint("login = lower(login)", "login"), unique=True),  # null until a link is used
    Column("password_hash", Text),
    Column("disabled", Boolean, nullable=False, server_default=text("false")),
    Index(None, "tenant_id"),
)

telegram_accounts = Table(
    "telegram_accounts",
    metadata,
    Column("id", UUID, primary_key=True, server_default=text("gen_random_uuid()")),
    _tenant(),
    Column("telegram_user_id", BigInteger, unique=True, nullable=False),
    Column("name", Text, nullable=False),
    Column("session", LargeBinary, nullable=False),  # encrypted; never in clear (LESSONS 24)
    Column("session_digest", Text),  # of the session in clear: the same session is known by it, whatever the key
    Column("status", Text, nullable=False, server_default="active"),  # active | revoked | banned
    Column("last_error", Text),
    Column("floods", JSONB, nullable=False, server_default=text("'{}'")),  # method -> ISO time it ends
    _now("created_at"),
    Index(None, "tenant_id"),
)

channels = Table(
    "channels",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # Telegram's own id, bare and positive
    _tenant(required=False),  # only for private channels: the tenant of the account that reads it
    Column("access_hash", JSONB, nullable=False, server_default=text("'{}'")),  # account id -> access hash
    Column("username", Text),
    Column("title", Text, nullable=False),
    Column("about", Text, nullable=False, server_default=""),
    Column("is_group", Boolean, nullable=False, server_default=text("false")),
    Column("subscribers", Integer),
    Column("linked_id", BigInteger),  # the discussion group
    Column("read_comments", Boolean, nullable=False, server_default=text("false")),
    Column("timezone", Text, nullable=False, server_default="Europe/Moscow"),
    Column(
        "status", Text, nullable=False, server_default="active"
    ),  # active | dead | removed | linked (only for its comments)
    Column("priority", Integer, nullable=False, server_default=text("0")),
    # The ledger (G1): ids below requested_from were never asked for; coverage is what has been proven.
    Column("cursor_id", BigInteger, nullable=False, server_default=text("0")),
    Column("newest_id", BigInteger, nullable=False, server_default=text("0")),
    Column("requested_from", BigInteger),
    _time("history_from"),  # somebody asked for history from this moment on; gone once requested_from says it
    Column("coverage", INT8MULTIRANGE, nullable=False, server_default=text("'{}'")),
    Column("captured", BigInteger, nullable=False, server_default=text("0")),
    # What a group hides: of each account the highest id that it is not shown, and the least of them. What was asked for
    # of that is kept apart: requested_from begins above, until an account comes that is shown more.
    Column("hidden", JSONB, nullable=False, server_default=text("'{}'")),
    Column("hidden_up_to", BigInteger, nullable=False, server_default=text("0")),
    Column("hidden_asked", BigInteger),
    Column("protected", Boolean, nullable=False, server_default=text("false")),  # its owner forbids to save its content
    _time("last_post_at"),
    _time("last_parsed_at"),
    _time("last_success_at"),
    Column("last_error", Text),
    _time("last_error_at"),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("intervals", JSONB),  # posting-interval statistics of the last days; null: too little data
    Column("refreshed", JSONB, nullable=False, server_default=text("'{}'")),  # window -> ISO time it was last re-read
    # Polling that learns: what the posts say about when it posts, and since when they do.
    Column("rhythm", JSONB),
    _time("rhythm_since"),
    Column("appetite", Float),  # looks a second that it would get at the price 1
    _time("planned_at"),  # next_visit_at while nothing but the rhythm decides it,
    Column("plan_price", Float),  # at this price of a request
    _time("next_visit_at"),
    # To be read again until then; a success moves it, and neither a failure nor a postponement does.
    Column(
        "promised_at", DateTime(timezone=True), nullable=False, server_default=text("now() + interval '10 minutes'")
    ),
    Column("leased_by", Text),
    _time("leased_until"),
    _now("created_at"),
    CheckConstraint("status IN ('active', 'dead', 'removed', 'linked')", "status"),
    Index("uq_channels_username", func.lower(text("username")), unique=True),
    Index("ix_channels_due", "next_visit_at", postgresql_where=text("status <> 'removed'")),
    Index("ix_channels_promised", "promised_at", postgresql_where=text("status = 'active'")),
    Index("ix_channels_failing", "failures", postgresql_where=text("failures > 0")),
    Index(None, "tenant_id"),
    Index("ix_channels_linked_id", "linked_id", postgresql_where=text("linked_id IS NOT NULL")),
)

# A channel exists when Telegram has confirmed it; until then a wish stands here, with its error.
channel_requests = Table(
    "channel_requests",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("reference", Text, nullable=False),
    Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE")),
    Column("last_error", Text),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    _time("next_attempt_at"),
    _now("created_at"),
    UniqueConstraint("tenant_id", "reference"),
    Index(None, "user_id"),
    Index(None, "channel_id"),
)

subscriptions = Table(
    "subscriptions",
    metadata,
    _tenant(),
    Column("user_id", UUID, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE"), primary_key=True),
    _now("created_at"),
    Index(None, "channel_id", "tenant_id"),
    Index(None, "tenant_id"),
)

# What a tenant asks of a channel that it shares with others; null: the usual.
channel_settings = Table(
    "channel_settings",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE"), primary_key=True),
    Column("priority", Integer),
    Column("timezone", Text),
    _now("changed_at"),
    Index(None, "channel_id"),
)

media_groups = Table(
    "media_groups",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE"), nullable=False),
    Column("grouped_id", BigInteger, nullable=False),
    Column("album_kind", Text, nullable=False),  # photo | video | document | mixed
    Column("items_count", Integer, nullable=False),
    Column("caption_text", Text, nullable=False, server_default=""),
    _time("posted_at", required=True),
    Column("announced_items", Integer, nullable=False, server_default=text("0")),
    _now("created_at"),
    UniqueConstraint("channel_id", "grouped_id"),
    CheckConstraint("album_kind IN ('photo', 'video', 'document', 'mixed')", "album_kind"),
    Index("ix_media_groups_open", "channel_id", postgresql_where=text("announced_items <> items_count")),
)

posts = Table(
    "posts",
    metadata,
    Column("id", UUID, primary_key=True),  # made from channel and message, so that every source finds the same row
    Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE"), nullable=False),
    Column("message_id", BigInteger, nullable=False),
    _time("posted_at", required=True),
    Column("text", Text, nullable=False, server_default=""),
    Column("entities", JSONB, nullable=False, server_default=text("'[]'")),
    Column("urls", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("content_hash", Text, nullable=False),
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("grouped_id", BigInteger),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),  # forward, reply, author, poll, service
    Column("pinned", Boolean, nullable=False, server_default=text("false")),
    Column("has_media", Boolean, nullable=False, server_default=text("false")),
    Column("views", Integer),
    Column("forwards", Integer),
    Column("replies", Integer),
    Column("reactions", JSONB, nullable=False, server_default=text("'{}'")),
    _time("edited_at"),
    _time("deleted_at"),
    _now("captured_at"),
    _now("counters_at"),  # when the counters above were seen
    UniqueConstraint("channel_id", "message_id"),
    Index(None, "channel_id", "posted_at"),
    Index(None, "captured_at"),
    Index("ix_posts_grouped", "channel_id", "grouped_id", postgresql_where=text("grouped_id IS NOT NULL")),
)

# A comment is a post of the discussion group; here stands which post of the channel it is about.
post_comments = Table(
    "post_comments",
    metadata,
    Column("comment_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), nullable=False),
    Index(None, "post_id"),
)

# What a post was before an edit; what it is now stands in `posts`.
post_versions = Table(
    "post_versions",
    metadata,
    _post(),
    Column("version", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("entities", JSONB, nullable=False, server_default=text("'[]'")),
    Column("media", JSONB, nullable=False, server_default=text("'[]'")),
    Column("content_hash", Text, nullable=False),
    _time("edited_at"),
    _now("seen_at"),
)

# What the counters were before they changed; what they are now stands in `posts`.
post_counters = Table(
    "post_counters",
    metadata,
    _post(),
    Column("at", DateTime(timezone=True), primary_key=True),
    Column("views", Integer),
    Column("forwards", Integer),
    Column("replies", Integer),
    Column("reactions", JSONB, nullable=False, server_default=text("'{}'")),
)

media_objects = Table(
    "media_objects",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("mime", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("storage_key", Text, nullable=False),
    _now("created_at"),
    _time("opened_at"),  # by somebody, about; null: never
    _time("evicted_at"),  # its bytes were given up, and can be fetched again
    Index(None, "created_at"),
)

post_media = Table(
    "post_media",
    metadata,
    _post(),
    Column("position", Integer, primary_key=True),
    Column("kind", Text, nullable=False),  # photo | video | audio | voice | document | sticker | animation | other
    Column("file_id", Text),  # Telegram's id of the file
    Column("mime", Text),
    Column("size", BigInteger),
    Column("width", Integer),
    Column("height", Integer),
    Column("duration", Float),
    Column("name", Text),
    Column("sha256", Text, ForeignKey("media_objects.sha256")),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("reason", Text),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    _time("next_attempt_at"),
    CheckConstraint("status IN ('pending', 'stored', 'skipped', 'failed', 'evicted')", "status"),
    Index(None, "sha256"),
    Index("ix_post_media_pending", "next_attempt_at", postgresql_where=text("status = 'pending'")),
)

media_group_items = Table(
    "media_group_items",
    metadata,
    Column("group_id", UUID, ForeignKey("media_groups.id", ondelete="CASCADE"), primary_key=True),
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, nullable=False),
    Index(None, "post_id"),
)

post_enrichment = Table(
    "post_enrichment",
    metadata,
    _post(),
    Column("kind", Text, primary_key=True),  # tags | vision | crawl | …
    Column("content_hash", Text, nullable=False),
    Column("data", JSONB, nullable=False),
    Column("provider", Text, nullable=False),
    _now("created_at"),
    _now("updated_at"),
)

# What a committed transaction has still to publish: one row per batch, gone once it is on the stream (decision 0003).
outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("event", Text, nullable=False),
    Column("ids", ARRAY(UUID), nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("tenant_id", UUID),  # of a private channel: a deleted post may have no row left that says it
    _now("created_at"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("stage", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("entry_id", Text, nullable=False),
    Column("payload", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    Column("traceback", Text),
    Column("attempts", Integer, nullable=False),
    Column("trace_id", Text),
    _now("created_at"),
    _time("replayed_at"),
    UniqueConstraint("stream", "stage", "entry_id"),
    Index(None, "tenant_id"),
)
