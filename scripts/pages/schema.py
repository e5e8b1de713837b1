"""docs/reference/schema.md: the tables as migrations leave them, read from a database, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg

SCHEMA = "docs/reference/schema.md"
TABLES = {
    "alert_channels": "Places that alerts of a tenant are sent to.",
    "alert_deliveries": "One row for an alert and a place: so each is sent once.",
    "api_keys": "Keys of users for the API; the secret itself is not kept.",
    "audit_log": "Who did what, when and from where.",
    "budget_calls": "Calls that are under way, and what they reserved.",
    "budget_spending": "What was spent of the budgets (decision 0017). An owner is a tenant, a site, or `all`.",
    "channel_audits": "How far the comparison of a channel with Telegram got.",
    "channel_requests": "Channels that users asked for, until Telegram has confirmed that they exist.",
    "channel_settings": "What a tenant asks of a channel that it shares with others; null: the usual.",
    "channels": "Channels and groups that are read. Public ones are stored once and shared (decision 0002).",
    "dead_letters": "What a stage gave up, until it is replayed or dropped (G4).",
    "digest_deliveries": "Issues that are sent by mail or by the bot. The page and the feed need no delivery.",
    "digest_issues": "One row for a digest and a time it was due: so each issue is made once.",
    "digests": "Digests that users ordered.",
    "forum_topics": "Topics of groups that are forums. A post is in the topic whose id its thread has.",
    "interests": "Topics of a user, and how much they are looked for.",
    "job_runs": "One row for a job and a time it was due: so no run happens twice.",
    "leases": "What one process at a time may do, such as using an account. A lease ends by time.",
    "media_group_items": "The posts of an album, in their order.",
    "media_groups": "Albums: posts that were sent as one.",
    "media_objects": "Files in the media store, once for all posts that have them.",
    "model_results": "Answers of models by what they were asked; only what succeeded.",
    "model_usage": "What a tenant used of a model on a day.",
    "notices": "Alerts: conditions that last, and events of watched posts.",
    "one_time_links": "Links to join or to set a new password, each good for one use.",
    "outbox": "Events of committed transactions that are not published yet, one row for a batch (decision 0003).",
    "picture_results": "What was seen on a picture, once for all posts and tenants that have it.",
    "post_comments": "Which post a comment is about. The comment itself is a post of the discussion group.",
    "post_counters": "What the counters were before they changed; what they are now is in `posts`.",
    "post_enrichment": "What the stages found out about a post.",
    "post_media": "Files of posts, and what became of them.",
    "post_pages": "Links of a post that were followed, and the page that each led to.",
    "post_steps": "The latest step of a post in each stage. What lacks the last one is published again (G3).",
    "post_versions": "What a post was before an edit; what it is now is in `posts`.",
    "posts": "Posts as Telegram has them now.",
    "saved_searches": "Searches that users keep, and how new posts are told.",
    "search_alerts": "One row for a saved search and a post: so a post is told of once.",
    "search_documents": "The full-text index. Stages write it: first the words, then what the models say.",
    "search_terms": "In how many documents a word is; the empty word: how many documents there are.",
    "sessions": "Sessions of browsers.",
    "storage_usage": "How much space a tenant used, each time it was measured.",
    "subscriptions": "Which user watches which channel. What a tenant sees follows from it.",
    "telegram_accounts": "Accounts that read Telegram.",
    "tenants": "Groups of people who see the same channels.",
    "trend_posts": "The posts of a trend, the first ones.",
    "trends": "One row for an event, as long as it goes on.",
    "unreadable_messages": "Messages that exist and that our version of Telethon cannot parse.",
    "upkeep": "Work that processes take turns at: how far it got, and the marks of engines that may forget.",
    "users": "Users of a tenant.",
    "watched_posts": "Posts that users watch. No foreign key to posts: a deleted one has to be told, too.",
    "web_pages": "Pages that posts link to, by their canonical address; text only, never HTML.",
    "witness_differences": "Posts of which an account and the public preview of their channel told different things.",
}
COLUMNS = {
    "alert_channels.hint": "of the secret: enough to recognise it",
    "alert_channels.secret": "sealed",
    "api_keys.prefix": "of the token, to find the row by",
    "audit_log.address": "of the network, where one is known",
    "budget_calls.ends_at": "then it counts as spent",
    "budget_spending.period": "its beginning, UTC",
    "channel_audits.audited_at": "when the last full audit ended",
    "channel_audits.began_at": "of the full audit that is under way",
    "channel_audits.below_id": "the audit has read what is stored from this id on",
    "channel_audits.done": "posts",
    "channel_audits.found": "differences, all repaired",
    "channel_audits.next_at": "a process that works on it moves this ahead, so that others leave it alone",
    "channel_audits.pts": "every change of the channel up to this number is stored; null: not known",
    "channel_audits.reason": "of the last full audit: away | too_long | lost | refused | asked",
    "channel_audits.wanted_at": "since when a full audit, which reads all posts again, is waited for; null: none is",
    "channel_audits.witnessed_at": "when an account and the public preview were last compared",
    "channel_requests.group_name": "of the list that asked for it; the channel is put there, if it is in none",
    "channel_settings.group_name": "in which the tenant keeps it",
    "channel_settings.paused_at": "since when; a channel that all who watch it have paused is not read",
    "channels.access_hash": "account id -> access hash",
    "channels.appetite": "looks a second that it would get at the price 1",
    "channels.coverage": "ids of which it is proven what they are (G1)",
    "channels.hidden": "account id -> the highest id that a group does not show it",
    "channels.hidden_asked": "what was asked for of the hidden ids, until an account comes that is shown more",
    "channels.hidden_up_to": "the least of `hidden`",
    "channels.history_from": "history from this moment on was asked for; null once requested_from says it",
    "channels.id": "Telegram's own id, bare and positive",
    "channels.intervals": "statistics of the intervals between posts; null: too little data",
    "channels.linked_id": "the discussion group",
    "channels.plan_price": "the price of a request at which it was planned",
    "channels.planned_at": "next_visit_at, while only the rhythm decides it",
    "channels.promised_at": "to be read again until then; only a success moves it",
    "channels.protected": "its owner forbids to save its content",
    "channels.refreshed": "window -> ISO time it was last read again",
    "channels.requested_from": "ids below were never asked for",
    "channels.rhythm": "when it posts, learned from its posts",
    "channels.status": "active | dead | removed | linked (only for its comments)",
    "channels.tenant_id": "only of private channels: the tenant of the account that reads it",
    "digest_deliveries.kind": "email | bot",
    "digest_issues.content": "null until it is built",
    "digest_issues.state": "due | built",
    "digests.channels": "none: all that the user sees",
    "digests.day": "of a monthly one",
    "digests.feed_version": "another number is another address of the feed",
    "digests.minute": "of the day, in the zone",
    "digests.most": "stories",
    "digests.topics": "none: everything",
    "digests.trouble": "why it is not made any more",
    "digests.weekday": "of a weekly one: 0 is Monday",
    "interests.chosen": "a weight that the user set; null: by what the user does",
    "interests.queries": "as they were at last_at: they fade",
    "interests.topic": "a topic of the taxonomy by its key, or a word of the user",
    "job_runs.note": "what was done",
    "job_runs.outcome": "asked | running | done | failed",
    "leases.fence": "grows when the owner changes",
    "leases.name": "account:<id> | session:<digest> | process:<owner>",
    "media_groups.album_kind": "photo | video | document | mixed",
    "media_objects.evicted_at": "its bytes were removed, and can be fetched again",
    "media_objects.opened_at": "to about a day; null: never",
    "model_usage.day": "its beginning, UTC",
    "notices.key": "what it is about: there is one at a time",
    "notices.state": "waiting: not for long enough yet | open | resolved | told: an event, which has no end",
    "notices.user_id": "null: for all of the tenant",
    "outbox.tenant_id": "of a private channel: a deleted post may have no row left that says it",
    "picture_results.bands": "pieces of its hash: near pictures share at least one",
    "picture_results.fingerprint": "what is left after scaling and recompression",
    "picture_results.identity": "provider, model and prompt",
    "picture_results.shared": "the result of a near duplicate",
    "post_enrichment.kind": "tags | vision | crawl | album",
    "post_media.file_id": "Telegram's id of the file",
    "post_media.trace_id": "of the capture that brought it: what is told of the file goes on with that trace",
    "post_media.kind": "photo | video | audio | voice | document | sticker | animation | other",
    "post_steps.outcome": "done | skipped | waiting | dead",
    "posts.counters_at": "when views, forwards, replies and reactions were seen",
    "posts.details": "forward, reply, author, poll, service",
    "posts.id": "made from channel and message, so that every source finds the same row",
    "saved_searches.checked_at": "all documents that changed before were looked at",
    "saved_searches.web": "counts as unread on the page",
    "saved_searches.webhook_secret": "sealed",
    "search_alerts.state": "of the webhook: shown | waiting | delivered | dead",
    "search_alerts.story_of": "the post of this search that told the story before; then no alert is sent",
    "search_documents.digest": "of all that it was made from",
    "search_documents.forms": "forms as written, values of filters, keys of its story: for finding",
    "search_documents.length": "in words",
    "search_documents.marks": "edited | forwarded | deleted | ad",
    "search_documents.outline": "its telling words in their order, and how rare each is: two posts are compared by it",
    "search_documents.signature": "of its text: near-copies have nearly the same",
    "search_documents.story_id": "the event that it tells of; none: it says too little",
    "search_documents.version": "of the code that made it",
    "search_documents.words": "dictionary forms with their weights: for finding and ranking",
    "storage_usage.kind": "posts | versions | media | vision | pages | search",
    "telegram_accounts.floods": "method -> ISO time it ends",
    "channels.topics_at": "when the topics of its forum were last asked for",
    "forum_topics.id": "the message that began it; 1: the general topic",
    "forum_topics.deleted_at": "since when Telegram does not list it any more",
    "telegram_accounts.takeout_id": "of the takeout session that is open",
    "telegram_accounts.takeout_until": "Telegram begins no takeout session before",
    "telegram_accounts.proxy": "encrypted too; null: as the settings say",
    "telegram_accounts.session": "encrypted; never in clear",
    "telegram_accounts.session_digest": "of the session in clear: the same session is known by it under any key",
    "telegram_accounts.status": "active | revoked | banned",
    "tenants.storage_quota_mb": "null: as the settings say; 0: none",
    "trend_posts.source_id": "the post that it copies or forwards",
    "trends.channels": "independent ones",
    "trends.counts": "of the same hours of each day, the oldest first",
    "trends.first_at": "of its posts",
    "trends.found_at": "the end of the first window it was seen in",
    "trends.kind": "topic | entity | phrase",
    "trends.mentions": "in the window it was last seen in",
    "trends.score": "the highest so far",
    "trends.state": "emerging: seen during the day only, so far | daily",
    "trends.subjects": "all that rose with it, the strongest first: kind, key, score",
    "unreadable_messages.reader": "what could not read it: another reader tries at once",
    "users.login": "null until a link is used",
    "watched_posts.deleted": "as its watcher knows",
    "watched_posts.title": "of its channel",
    "watched_posts.version": "that its watcher knows",
    "web_pages.problem": "why there is no text",
    "witness_differences.account_text": "null: for the account it is not there",
    "witness_differences.agreed_at": "since when both tell the same again",
    "witness_differences.digest": "of both texts: the same difference is kept once",
    "witness_differences.kind": "text | only_account | only_preview",
    "witness_differences.preview_text": "null: for the preview it is not there",
    "witness_differences.seen": "tenant -> when an admin of it marked it as seen",
}

_TABLES = """
SELECT c.oid, c.relname AS name FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> 'alembic_version' ORDER BY c.relname
"""
_COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
  pg_get_expr(d.adbin, d.adrelid) AS standard, a.attidentity <> '' AS numbered
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_RULES = """
SELECT pg_get_constraintdef(oid) AS rule FROM pg_constraint WHERE conrelid = $1 AND contype IN ('p', 'f', 'u', 'c')
ORDER BY contype = 'p' DESC, rule
"""
_INDEXES = """
SELECT regexp_replace(pg_get_indexdef(i.indexrelid),
  '^CREATE (UNIQUE )?INDEX (\\S+) ON \\S+ USING ', '\\2: \\1') AS rule
FROM pg_index i WHERE i.indrelid = $1 AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid
  AND c.contype IN ('p', 'u')) ORDER BY rule
"""
INTRODUCTION = """# Schema

The tables of PostgreSQL, as the migrations make them. Every time is with its zone; every table has row-level security,
so that a tenant sees only its own. This page is made from a database by `scripts/docs ADDRESS`; do not edit it.
"""


async def schema_page(url: str) -> str:
    """From a database with the newest schema."""
    connection = await asyncpg.connect(url)
    try:
        parts = [INTRODUCTION]
        for table in await connection.fetch(_TABLES):
            columns = await connection.fetch(_COLUMNS, table["oid"])
            rules = [*await connection.fetch(_RULES, table["oid"]), *await connection.fetch(_INDEXES, table["oid"])]
            parts.append("\n".join(_table(table["name"], columns, [row["rule"] for row in rules])))
    finally:
        await connection.close()
    return "\n".join(parts)


def _table(name: str, columns: list[Any], rules: list[str]) -> Iterator[str]:
    yield f"## {name}\n\n{TABLES[name]}\n"
    yield "| column | type | default | meaning |\n| --- | --- | --- | --- |"
    for column in columns:
        kind = column["type"] + ("" if column["required"] else ", may be null")
        standard = "numbered" if column["numbered"] else f"`{column['standard']}`" if column["standard"] else ""
        meaning = COLUMNS.get(f"{name}.{column['name']}", "").replace("|", "\\|")
        yield f"| `{column['name']}` | {kind} | {standard} | {meaning} |"
    yield ""
    yield from (f"- `{rule}`" for rule in rules)
    yield ""
