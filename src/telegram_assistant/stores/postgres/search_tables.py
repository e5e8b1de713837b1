"""Tables of the full-text index: what can be found of each post, and how common each word is."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR, UUID

from telegram_assistant.stores.postgres.tables import metadata


def _texts(name: str) -> Column[object]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


# Written by the stages, not by capture, which would pay for it on every page it reads: first with the words alone, then
# with all that models say.
search_documents = Table(
    "search_documents",
    metadata,
    Column("post_id", UUID, ForeignKey("posts.id", ondelete="CASCADE"), primary_key=True),
    Column("channel_id", BigInteger, ForeignKey("channels.id", ondelete="CASCADE"), nullable=False),
    Column("posted_at", DateTime(timezone=True), nullable=False),
    Column("album_id", UUID),
    Column("language", Text, nullable=False, server_default=""),
    _texts("tags"),
    _texts("topics"),
    _texts("has"),
    _texts("marks"),  # edited | forwarded | deleted
    Column("deleted", Boolean, nullable=False, server_default=text("false")),
    Column("length", Integer, nullable=False, server_default=text("0")),  # in words
    Column("signature", LargeBinary, nullable=False, server_default=text("''")),  # of its story
    # Dictionary forms with their weights: looked through and ranked by.
    Column("words", TSVECTOR, nullable=False, server_default=text("''")),
    # Forms as written, values of filters, bands of the signature: looked through only.
    Column("forms", TSVECTOR, nullable=False, server_default=text("''")),
    Column("digest", Text, nullable=False, server_default=""),  # of all that it was made from
    Column("version", Integer, nullable=False, server_default=text("0")),  # of the code that made it
    Column("indexed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),  # first
    Column("changed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),  # last
    # Without a list of pending entries, which every search would have to read through.
    Index(
        "ix_search_documents_words_forms",
        "words",
        "forms",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    ),
    Index(None, "posted_at", "post_id"),
    Index(None, "channel_id", "posted_at"),
    Index(None, "changed_at", "post_id"),
)

# In how many documents a word stands; the empty word: how many documents there are. Counted now and then.
search_terms = Table(
    "search_terms",
    metadata,
    Column("lexeme", Text, primary_key=True),
    Column("documents", BigInteger, nullable=False),
)
