"""The first schema: all tables, the system's own tenant and user, and row-level security for the plain role."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from telegram_assistant.stores.postgres.migrations import TENANT, foreign_key, show_to_tenant

revision = "0001"
down_revision = None

SYSTEM_TENANT = "00000000-0000-0000-0000-000000000001"
SYSTEM_USER = "00000000-0000-0000-0000-000000000002"

# What a row must fulfil to be seen under the tenant role. Policies of one table look through those of the next:
# a post shows if its channel shows, its versions if the post shows.
OWN = f"tenant_id = {TENANT}"
SUBSCRIBED = (
    f"EXISTS (SELECT 1 FROM subscriptions s WHERE s.tenant_id = {TENANT} AND (s.channel_id = channels.id"
    # Comments show to those who watch the channel that they are about.
    " OR (channels.status = 'linked' AND s.channel_id = channels.linked_id)))"
)
OF_CHANNEL = "EXISTS (SELECT 1 FROM channels c WHERE c.id = channel_id)"
OF_POST = "EXISTS (SELECT 1 FROM posts p WHERE p.id = post_id)"
POLICIES = {
    "tenants": f"id = {TENANT}",
    "users": OWN,
    "subscriptions": OWN,
    "channel_requests": OWN,
    "telegram_accounts": OWN,
    "dead_letters": OWN,
    # A private channel shows to its own tenant only, even if a stray subscription says otherwise.
    "channels": f"(tenant_id IS NULL OR {OWN}) AND {SUBSCRIBED}",
    "posts": OF_CHANNEL,
    "media_groups": OF_CHANNEL,
    "post_versions": OF_POST,
    "post_counters": OF_POST,
    "post_media": OF_POST,
    "post_enrichment": OF_POST,
    "media_group_items": OF_POST,
    "post_comments": OF_POST,
    "outbox": "false",
    "media_objects": "EXISTS (SELECT 1 FROM post_media m WHERE m.sha256 = media_objects.sha256)",
}
# What a tenant's own requests may write, for its own users; everything else is read-only for them.
WRITABLE = ("subscriptions", "channel_requests")
OF_USER = "EXISTS (SELECT 1 FROM users u WHERE u.id = user_id)"


def upgrade() -> None:
    _create_tables()
    op.execute(f"INSERT INTO tenants (id, name) VALUES ('{SYSTEM_TENANT}', 'system')")
    op.execute(
        f"INSERT INTO users (id, tenant_id, name, role) VALUES ('{SYSTEM_USER}', '{SYSTEM_TENANT}', 'system', 'system')"
    )
    # Roles belong to the whole server: another database of it may have made this one already.
    op.execute(
        "DO $$ BEGIN CREATE ROLE tga_tenant NOLOGIN;"
        " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    )
    op.execute("GRANT tga_tenant TO CURRENT_USER")
    op.execute("GRANT USAGE ON SCHEMA public TO tga_tenant")
    for table, condition in POLICIES.items():
        show_to_tenant(table, condition)
    for table in WRITABLE:
        op.execute(f"ALTER POLICY tenant ON {table} WITH CHECK ({POLICIES[table]} AND {OF_USER})")
        op.execute(f"GRANT INSERT, UPDATE, DELETE ON {table} TO tga_tenant")


def _create_tables() -> None:
    _media_objects_to_channels()
    _dead_letters_to_users()
    _channel_requests_and_media_groups()
    _posts_to_media_group_items()
    _post_comments_to_post_media()
    _post_versions()


def _media_objects_to_channels() -> None:
    op.create_table(
        "media_objects",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("mime", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("storage_key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_media_objects")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("ids", postgresql.ARRAY(sa.UUID()), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name", name=op.f("uq_tenants_name")),
    )
    op.create_table(
        "channels",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=True),
        sa.Column(
            "access_hash", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("username", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), server_default="", nullable=False),
        sa.Column("is_group", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("subscribers", sa.Integer(), nullable=True),
        sa.Column("linked_id", sa.BigInteger(), nullable=True),
        sa.Column("read_comments", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("timezone", sa.Text(), server_default="Europe/Moscow", nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("cursor_id", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("newest_id", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("requested_from", sa.BigInteger(), nullable=True),
        sa.Column("history_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("coverage", postgresql.INT8MULTIRANGE(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("captured", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_post_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_parsed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_error_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("intervals", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("refreshed", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("next_visit_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leased_by", sa.Text(), nullable=True),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('active', 'dead', 'removed', 'linked')", name=op.f("ck_channels_status")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_channels_tenant_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channels")),
    )
    op.create_index(
        "ix_channels_due", "channels", ["next_visit_at"], unique=False, postgresql_where=sa.text("status <> 'removed'")
    )
    op.create_index(op.f("ix_channels_tenant_id"), "channels", ["tenant_id"], unique=False)
    op.create_index("uq_channels_username", "channels", [sa.literal_column("lower(username)")], unique=True)


def _dead_letters_to_users() -> None:
    op.create_table(
        "dead_letters",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("replayed_at", sa.DateTime(timezone=True), nullable=True),
        foreign_key("dead_letters", "tenant_id", "tenants.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dead_letters")),
        sa.UniqueConstraint("stream", "stage", "entry_id", name=op.f("uq_dead_letters_stream_stage_entry_id")),
    )
    op.create_index(op.f("ix_dead_letters_tenant_id"), "dead_letters", ["tenant_id"], unique=False)
    op.create_table(
        "telegram_accounts",
        sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("telegram_user_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("session", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("floods", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        foreign_key("telegram_accounts", "tenant_id", "tenants.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_telegram_accounts")),
        sa.UniqueConstraint("telegram_user_id", name=op.f("uq_telegram_accounts_telegram_user_id")),
    )
    op.create_index(op.f("ix_telegram_accounts_tenant_id"), "telegram_accounts", ["tenant_id"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("telegram_user_id", sa.BigInteger(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_users_tenant_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
        sa.UniqueConstraint("telegram_user_id", name=op.f("uq_users_telegram_user_id")),
    )
    op.create_index(op.f("ix_users_tenant_id"), "users", ["tenant_id"], unique=False)


def _channel_requests_and_media_groups() -> None:
    op.create_table(
        "channel_requests",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("user_id", sa.UUID(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        foreign_key("channel_requests", "channel_id", "channels.id"),
        foreign_key("channel_requests", "tenant_id", "tenants.id"),
        foreign_key("channel_requests", "user_id", "users.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channel_requests")),
        sa.UniqueConstraint("tenant_id", "reference", name=op.f("uq_channel_requests_tenant_id_reference")),
    )
    op.create_index(op.f("ix_channel_requests_channel_id"), "channel_requests", ["channel_id"], unique=False)
    op.create_index(op.f("ix_channel_requests_user_id"), "channel_requests", ["user_id"], unique=False)
    op.create_table(
        "media_groups",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("grouped_id", sa.BigInteger(), nullable=False),
        sa.Column("album_kind", sa.Text(), nullable=False),
        sa.Column("items_count", sa.Integer(), nullable=False),
        sa.Column("caption_text", sa.Text(), server_default="", nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("announced_items", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "album_kind IN ('photo', 'video', 'document', 'mixed')", name=op.f("ck_media_groups_album_kind")
        ),
        foreign_key("media_groups", "channel_id", "channels.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_media_groups")),
        sa.UniqueConstraint("channel_id", "grouped_id", name=op.f("uq_media_groups_channel_id_grouped_id")),
    )
    op.create_index(
        "ix_media_groups_open",
        "media_groups",
        ["channel_id"],
        unique=False,
        postgresql_where=sa.text("announced_items <> items_count"),
    )


def _posts_to_media_group_items() -> None:
    op.create_table(
        "posts",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.BigInteger(), nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("text", sa.Text(), server_default="", nullable=False),
        sa.Column("entities", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("urls", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("grouped_id", sa.BigInteger(), nullable=True),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("pinned", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("has_media", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("views", sa.Integer(), nullable=True),
        sa.Column("forwards", sa.Integer(), nullable=True),
        sa.Column("replies", sa.Integer(), nullable=True),
        sa.Column("reactions", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("edited_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("captured_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("counters_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_posts_channel_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_posts")),
        sa.UniqueConstraint("channel_id", "message_id", name=op.f("uq_posts_channel_id_message_id")),
    )
    op.create_index(op.f("ix_posts_channel_id_posted_at"), "posts", ["channel_id", "posted_at"], unique=False)
    op.create_index(
        "ix_posts_grouped",
        "posts",
        ["channel_id", "grouped_id"],
        unique=False,
        postgresql_where=sa.text("grouped_id IS NOT NULL"),
    )
    op.create_table(
        "subscriptions",
        sa.Column("tenant_id", sa.UUID(), nullable=False),
        sa.Column("user_id", sa.UUID(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        foreign_key("subscriptions", "channel_id", "channels.id"),
        foreign_key("subscriptions", "tenant_id", "tenants.id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_subscriptions_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "channel_id", name=op.f("pk_subscriptions")),
    )
    op.create_index(
        op.f("ix_subscriptions_channel_id_tenant_id"), "subscriptions", ["channel_id", "tenant_id"], unique=False
    )
    op.create_index(op.f("ix_subscriptions_tenant_id"), "subscriptions", ["tenant_id"], unique=False)
    op.create_table(
        "media_group_items",
        sa.Column("group_id", sa.UUID(), nullable=False),
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        foreign_key("media_group_items", "group_id", "media_groups.id"),
        foreign_key("media_group_items", "post_id", "posts.id"),
        sa.PrimaryKeyConstraint("group_id", "post_id", name=op.f("pk_media_group_items")),
    )
    op.create_index(op.f("ix_media_group_items_post_id"), "media_group_items", ["post_id"], unique=False)


def _post_comments_to_post_media() -> None:
    op.create_table(
        "post_comments",
        sa.Column("comment_id", sa.UUID(), nullable=False),
        sa.Column("post_id", sa.UUID(), nullable=False),
        foreign_key("post_comments", "comment_id", "posts.id"),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_comments_post_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("comment_id", name=op.f("pk_post_comments")),
    )
    op.create_index(op.f("ix_post_comments_post_id"), "post_comments", ["post_id"], unique=False)
    op.create_table(
        "post_counters",
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("views", sa.Integer(), nullable=True),
        sa.Column("forwards", sa.Integer(), nullable=True),
        sa.Column("replies", sa.Integer(), nullable=True),
        sa.Column("reactions", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_counters_post_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("post_id", "at", name=op.f("pk_post_counters")),
    )
    op.create_table(
        "post_enrichment",
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_enrichment_post_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("post_id", "kind", name=op.f("pk_post_enrichment")),
    )
    op.create_table(
        "post_media",
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=True),
        sa.Column("mime", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.Column("duration", sa.Float(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("status IN ('pending', 'stored', 'skipped', 'failed')", name=op.f("ck_post_media_status")),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_media_post_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["sha256"], ["media_objects.sha256"], name=op.f("fk_post_media_sha256")),
        sa.PrimaryKeyConstraint("post_id", "position", name=op.f("pk_post_media")),
    )
    op.create_index(
        "ix_post_media_pending",
        "post_media",
        ["next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(op.f("ix_post_media_sha256"), "post_media", ["sha256"], unique=False)


def _post_versions() -> None:
    op.create_table(
        "post_versions",
        sa.Column("post_id", sa.UUID(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("entities", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("media", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("edited_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["post_id"], ["posts.id"], name=op.f("fk_post_versions_post_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("post_id", "version", name=op.f("pk_post_versions")),
    )
