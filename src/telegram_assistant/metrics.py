"""Every metric we export, defined once (LESSONS 12). Call sites import the object, never the name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from telegram_assistant.channel_metrics import ChannelCounter, ChannelGauge, ChannelHistogram, ChannelLabels
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.visits import ForcedReason, Mode

REGISTRY = CollectorRegistry(auto_describe=True)
CHANNEL_LABELS = ChannelLabels()  # METRICS_MAX_CHANNELS sets its limit

_counter = partial(Counter, registry=REGISTRY)
_gauge = partial(Gauge, registry=REGISTRY)
_histogram = partial(Histogram, registry=REGISTRY)
_channel_counter = partial(ChannelCounter, channels=CHANNEL_LABELS, registry=REGISTRY)
_channel_gauge = partial(ChannelGauge, channels=CHANNEL_LABELS, registry=REGISTRY)
_channel_histogram = partial(ChannelHistogram, channels=CHANNEL_LABELS, registry=REGISTRY)

# The process
PROCESS = ProcessCollector(registry=REGISTRY)
TASK_UP = _gauge("supervised_task_up", "1 while a supervised task runs", ["task"])
TASK_RESTARTS = _counter("supervised_task_restarts_total", "Restarts of a supervised task", ["task"])
ENGINE_UP = _gauge("engine_up", "1 while an engine answers", ["engine"])
PART_STALE = _gauge("part_stale", "1 while a part has been tried in vain for too long", ["kind", "part"])
TROUBLES = _gauge("health_troubles", "What health finds wrong, by how bad it is", ["level"])
CLOCK_OFFSET = _gauge("clock_ahead_seconds", "How far our clock is ahead of another", ["of"])

# Scheduler (SPEC 1)
LOCK_ACQUIRED = _counter("scheduler_lock_acquired_total", "Attempts to get the scheduler's lock", ["status"])
INTERVAL = _gauge("scheduler_interval_seconds", "PARSER_SCHEDULER_INTERVAL_SEC of this process")
LAST_TICK = _gauge("scheduler_last_tick_ts_seconds", "When the last successful tick was")
CHANNELS_DUE = _gauge("scheduler_channels_due", "Channels that waited for a visit at the last tick")
MODE_FORCED = _counter("parser_mode_forced_total", "Visits whose mode was forced", ["reason"])
RETRIES = _counter("parser_retries_total", "Visits tried again", ["reason"])
FLOODWAIT_SECONDS = _counter("parser_floodwait_seconds_total", "Seconds Telegram made us wait")

# Parsing (SPEC 2, 8)
RUNS = _counter("parser_runs_total", "Visits to channels", ["mode", "status"])
DURATION = _histogram(
    "parsing_duration_seconds", "How long a visit took", buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
)
POSTS_PARSED_COUNT = _counter("posts_parsed_total", "New posts that were stored", ["mode"])
POSTS_EDITED = _counter("posts_edited_total", "Posts whose text or media changed")
POSTS_DELETED_COUNT = _counter("posts_deleted_total", "Posts found to be deleted")
HWM_AGE = _channel_gauge(
    "parser_hwm_age_seconds", "Age of the mark of a parse that is not finished; 0 when it is", combine=max
)
LAST_SUCCESS = _channel_gauge(
    "parser_last_success_seconds", "When a channel was last visited with success", combine=min
)
LAST_POST = _channel_gauge("channel_last_post_timestamp_seconds", "When a channel's newest post was made", combine=max)
WATERMARK_AGE = _channel_gauge("incremental_watermark_age_seconds", "Time since the last successful visit", combine=max)

# Silence (SPEC 3)
INTERARRIVAL = _channel_histogram(
    "interarrival_seconds",
    "Time between two posts of a channel",
    buckets=(1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400, 259200),
)
THRESHOLD = _channel_gauge("adaptive_threshold_seconds", "Silence that is unusual now", combine=max)
CHANNEL_GAP = _channel_gauge("channel_gap_seconds", "How long a channel has been silent", combine=max)
SILENCE_LOOKS = _counter(
    "silence_looks_total",
    "Looks at unusually silent channels: silent, news since the last visit, or a hole that it had missed",
    ["outcome"],
)
MISSING_DURATION = _gauge(
    "posts_missing_duration_seconds", "The longest silence above its threshold, for older dashboards"
)

# The ledger (G1)
CHANNELS = _gauge("channels", "Channels by what became of them", ["status"])
CHANNELS_OVERDUE = _gauge("channels_overdue", "Active channels that were not read by the time that was promised")
UNKNOWN_IDS = _channel_gauge(
    "ledger_unknown_ids", "Message ids that are neither captured nor proven empty", combine=sum
)
PROVEN_UP_TO = _channel_gauge("ledger_proven_up_to", "Every requested id up to here is known", combine=min)
DIFFERENCES = _counter(
    "telegram_differences_total",
    "Answers to what changed in a channel, and why a full audit was asked for instead",
    ["outcome"],
)
AUDITED_IDS = _counter("audit_ids_total", "Known ids that were read again and compared")
AUDIT_WAITING = _gauge("audit_posts_waiting", "Stored posts that a full audit has not looked at yet")
AUDIT_DISAGREEMENTS = _counter("audit_disagreements_total", "What an audit found and repaired", ["kind"])
WITNESS_IDS = _counter("witness_ids_total", "Ids of which an account and a public preview were compared")
WITNESS_DIFFERENCES = _counter(
    "witness_differences_total", "Posts of which an account and a public preview tell different things", ["kind"]
)
WITNESS_UNSEEN = _gauge("witness_differences_unseen", "Such posts that no admin has marked as seen")
COVERAGE = _channel_gauge("ledger_coverage_percent", "Known share of the requested ids", combine=min)
LATE_POSTS = _counter("ledger_late_posts_total", "Posts that showed where a page had proven nothing, found and stored")
LIVE_UPDATES = _counter("live_updates_total", "Updates that Telegram pushed", ["kind"])
LIVE_FAILURES = _counter("live_update_failures_total", "Updates that could not be saved", ["account"])
BACKFILL_JOBS = _channel_counter("backfill_jobs_total", "Backfills of a channel", label="status")

# Accounts
REQUESTS = _counter("telegram_requests_total", "Requests made", ["account", "method"])
FLOODS = _counter("telegram_floods_total", "Times Telegram asked to wait", ["account", "method"])
FLOOD_UNTIL = _gauge("telegram_flood_until_ts_seconds", "When a method may be asked again", ["account", "method"])
ACCOUNTS = _gauge("telegram_accounts", "Accounts by what they are good for", ["status"])
ACCOUNTS_HELD = _gauge("telegram_accounts_held", "Accounts that this process works with")

# Media
MEDIA_FILES = _counter("media_files_total", "Files of posts by what became of them", ["status"])
MEDIA_BYTES = _counter("media_bytes_total", "Bytes of files that were downloaded")
MEDIA_PENDING = _gauge("media_pending_files", "Files that wait for their download")

# The pipeline (SPEC 4.11, 8)
POSTS_PROCESSED = _counter("posts_processed_total", "Events that a stage dealt with", ["stage", "success"])
STAGE_EVENTS = _counter("stage_events_total", "Events by how they ended", ["stage", "outcome"])
STAGE_DURATION = _histogram(
    "stage_batch_duration_seconds",
    "How long a stage took for a batch",
    ["stage"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120),
)
STREAM_PENDING = _gauge("stream_pending_size", "Entries delivered and not acknowledged", ["stream", "group"])
STREAM_LAG = _gauge("stream_consumer_lag", "Entries not yet delivered", ["stream", "group"])
PIPELINE_BYTES = _gauge("pipeline_waiting_bytes", "Memory of Redis that waits for the stages")
PIPELINE_FULL = _gauge("pipeline_full", "1 while nothing is published because STREAMS_MAX_MB are waiting")
STAGE_OLDEST = _gauge("stage_oldest_waiting_seconds", "Age of what waits longest", ["stage"])
STAGE_WAITING = _gauge("stage_waiting_events", "Events that are tried again later", ["stage"])
DEAD_LETTERS = _gauge("dead_letters", "Dead letters that wait to be replayed or dropped", ["stage"])

# Models
AI_REQUESTS = _counter("ai_requests_total", "Calls of a model by how they ended", ["provider", "ability", "outcome"])
AI_TOKENS = _counter("ai_tokens_total", "Tokens that models took", ["provider", "ability", "direction"])
AI_COST = _counter(
    "ai_cost_total", "What remote models cost, in the currency of AI_PRICE_PER_1K_IN and _OUT", ["provider", "ability"]
)
AI_LATENCY = _histogram(
    "ai_latency_seconds",
    "How long a call of a model took, its repetitions included",
    ["provider", "ability"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
AI_RUBBISH = _counter(
    "ai_rubbish_total",
    "Answers of remote models that cannot be used: of no such form, vectors of zeros",
    ["provider", "ability"],
)
AI_BLOCKED = _gauge("ai_blocked", "1 while a model waits for a person to act", ["provider", "ability"])

# Crawling
CRAWL_PAGES = _counter("crawl_pages_total", "Pages asked for, by what became of them", ["outcome"])
CRAWL_BYTES = _counter("crawl_bytes_total", "Bytes of pages as they came over the wire")
CRAWL_SECONDS = _histogram(
    "crawl_page_seconds",
    "From asking for a page to its text, waits for politeness included",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40),
)

# Vision
WORKER_DEATHS = _counter("worker_deaths_total", "Worker processes that were lost", ["worker", "reason"])
VISION_BUDGET_SPENT = _gauge("vision_budget_spent_tokens", "Tokens for pictures since midnight UTC", ["tenant"])
VISION_BUDGET_LIMIT = _gauge("vision_budget_limit_tokens", "Tokens for pictures that a tenant has per day")
VISION_BUDGET_REFUSED = _counter("vision_budget_refused_total", "Pictures that the budget put off", ["reason"])
MODEL_BUDGET_SPENT = _gauge(
    "model_budget_spent_tokens",
    "Tokens of remote models for tags, vectors and answers since midnight UTC, of all processes",
    ["ability"],
)
MODEL_BUDGET_LIMIT = _gauge(
    "model_budget_limit_tokens", "Tokens that remote models may take per day; 0 without a limit"
)
MODEL_BUDGET_REFUSED = _counter(
    "model_budget_refused_total", "Calls that were not made for the budget's sake", ["reason"]
)
SWEPT = _counter("posts_published_again_total", "Posts found missing and told of again", ["kind"])
EXAMINED = _counter("posts_examined_total", "Posts that were compared with what should be there of them")
ENGINE_LOSSES = _counter(
    "engine_data_lost_total", "Times that an engine was found without what it had held", ["engine"]
)
FILES_LOST = _counter("media_files_lost_total", "Files that vanished from the media store")
INDEX_REBUILD_REMAINING = _gauge(
    "index_rebuild_remaining_posts", "Posts to compare until a lost index is whole again; 0: none is lost"
)
INDEX_RESTORED = _counter(
    "index_posts_restored_total", "Posts that should have been in an index, and were put in again"
)

# Periodic jobs (SPEC 5); their label is not `job`, which Prometheus keeps for itself
JOB_RUNS = _counter("job_runs_total", "Runs of periodic jobs by how they ended", ["periodic_job", "outcome"])
JOB_LAST_SUCCESS = _gauge("job_last_success_ts_seconds", "When a periodic job last ended well, here", ["periodic_job"])
JOB_SECONDS = _histogram(
    "job_duration_seconds",
    "How long a run of a periodic job took",
    ["periodic_job"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600),
)
DIGEST_ISSUES = _counter("digest_issues_total", "Issues of digests: built, put off, sent, refused", ["outcome"])


def _begin(metric: Counter, *values: Iterable[str]) -> None:
    """At zero from the start: rate() does not see the event that a series begins with."""
    for labels in product(*values):
        metric.labels(*labels)


_begin(LOCK_ACQUIRED, ("acquired", "extended", "busy", "lost"))
_begin(MODE_FORCED, set(ForcedReason) - {ForcedReason.NEVER_PARSED})
_begin(RETRIES, Failure)
_begin(RUNS, Mode, ("ok", "empty", "flood", "failed", "lease_lost"))
_begin(POSTS_PARSED_COUNT, Mode)
_begin(SILENCE_LOOKS, ("silent", "news", "hole"))
_begin(DIFFERENCES, ("told", "nothing", "too_long", "lost", "refused", "away"))
_begin(AUDIT_DISAGREEMENTS, ("missing", "edited", "deleted"))
_begin(WITNESS_DIFFERENCES, ("text", "only_account", "only_preview"))
_begin(LIVE_UPDATES, ("NewPost", "Deleted", "Interrupted"))
_begin(MEDIA_FILES, ("stored", "adopted", "skipped", "postponed", "retried", "failed"))
_begin(CRAWL_PAGES, ("read", "unchanged", "retry", "skip", "reject"))
_begin(WORKER_DEATHS, ("page_reader",), ("not_started", "too_slow", "died", "nonsense"))
_begin(VISION_BUDGET_REFUSED, ("tokens", "busy"))
_begin(MODEL_BUDGET_REFUSED, ("tokens", "busy"))
_begin(SWEPT, ("remaining", "untagged", "unindexed", "unread", "unseen", "not_retagged", "unassembled"))
_begin(ENGINE_LOSSES, ("redis", "vectors", "graph", "media"))
_begin(DIGEST_ISSUES, ("built", "postponed", "sent", "refused"))
