"""Every metric we export, defined once (LESSONS 12). Call sites import the object, never the name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from telegram_assistant.channel_metrics import ChannelCounter, ChannelGauge, ChannelHistogram, ChannelLabels
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.visits import ForcedReason, Mode

REGISTRY = CollectorRegistry(auto_describe=True)
CHANNEL_LABELS = ChannelLabels()  # METRICS_MAX_CHANNELS sets its limit

# The process
PROCESS = ProcessCollector(registry=REGISTRY)
TASK_UP = Gauge("supervised_task_up", "1 while a supervised task runs", ["task"], registry=REGISTRY)
TASK_RESTARTS = Counter("supervised_task_restarts_total", "Restarts of a supervised task", ["task"], registry=REGISTRY)
ENGINE_UP = Gauge("engine_up", "1 while an engine answers", ["engine"], registry=REGISTRY)
PART_STALE = Gauge(
    "part_stale", "1 while a part has been tried in vain for too long", ["kind", "part"], registry=REGISTRY
)
TROUBLES = Gauge("health_troubles", "What health finds wrong, by how bad it is", ["level"], registry=REGISTRY)
CLOCK_OFFSET = Gauge("clock_ahead_seconds", "How far our clock is ahead of another", ["of"], registry=REGISTRY)

# Scheduler (SPEC 1)
LOCK_ACQUIRED = Counter(
    "scheduler_lock_acquired_total", "Attempts to get the scheduler's lock", ["status"], registry=REGISTRY
)
INTERVAL = Gauge("scheduler_interval_seconds", "PARSER_SCHEDULER_INTERVAL_SEC of this process", registry=REGISTRY)
LAST_TICK = Gauge("scheduler_last_tick_ts_seconds", "When the last successful tick was", registry=REGISTRY)
CHANNELS_DUE = Gauge("scheduler_channels_due", "Channels that waited for a visit at the last tick", registry=REGISTRY)
MODE_FORCED = Counter("parser_mode_forced_total", "Visits whose mode was forced", ["reason"], registry=REGISTRY)
RETRIES = Counter("parser_retries_total", "Visits tried again", ["reason"], registry=REGISTRY)
FLOODWAIT_SECONDS = Counter("parser_floodwait_seconds_total", "Seconds Telegram made us wait", registry=REGISTRY)

# Parsing (SPEC 2, 8)
RUNS = Counter("parser_runs_total", "Visits to channels", ["mode", "status"], registry=REGISTRY)
DURATION = Histogram(
    "parsing_duration_seconds",
    "How long a visit took",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
    registry=REGISTRY,
)
POSTS_PARSED_COUNT = Counter("posts_parsed_total", "New posts that were stored", ["mode"], registry=REGISTRY)
POSTS_EDITED = Counter("posts_edited_total", "Posts whose text or media changed", registry=REGISTRY)
POSTS_DELETED_COUNT = Counter("posts_deleted_total", "Posts found to be deleted", registry=REGISTRY)
HWM_AGE = ChannelGauge(
    "parser_hwm_age_seconds",
    "Age of the mark of a parse that is not finished; 0 when it is",
    CHANNEL_LABELS,
    combine=max,
    registry=REGISTRY,
)
LAST_SUCCESS = ChannelGauge(
    "parser_last_success_seconds",
    "When a channel was last visited with success",
    CHANNEL_LABELS,
    combine=min,
    registry=REGISTRY,
)
LAST_POST = ChannelGauge(
    "channel_last_post_timestamp_seconds",
    "When a channel's newest post was made",
    CHANNEL_LABELS,
    combine=max,
    registry=REGISTRY,
)
WATERMARK_AGE = ChannelGauge(
    "incremental_watermark_age_seconds",
    "Time since the last successful visit",
    CHANNEL_LABELS,
    combine=max,
    registry=REGISTRY,
)

# Silence (SPEC 3)
INTERARRIVAL = ChannelHistogram(
    "interarrival_seconds",
    "Time between two posts of a channel",
    CHANNEL_LABELS,
    buckets=(1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400, 259200),
    registry=REGISTRY,
)
THRESHOLD = ChannelGauge(
    "adaptive_threshold_seconds", "Silence that is unusual now", CHANNEL_LABELS, combine=max, registry=REGISTRY
)
CHANNEL_GAP = ChannelGauge(
    "channel_gap_seconds", "How long a channel has been silent", CHANNEL_LABELS, combine=max, registry=REGISTRY
)
SILENCE_LOOKS = Counter(
    "silence_looks_total",
    "Looks at unusually silent channels: silent, news since the last visit, or a hole that it had missed",
    ["outcome"],
    registry=REGISTRY,
)
MISSING_DURATION = Gauge(
    "posts_missing_duration_seconds", "The longest silence above its threshold, for older dashboards", registry=REGISTRY
)

# The ledger (G1)
CHANNELS = Gauge("channels", "Channels by what became of them", ["status"], registry=REGISTRY)
CHANNELS_OVERDUE = Gauge(
    "channels_overdue", "Active channels that were not read by the time that was promised", registry=REGISTRY
)
UNKNOWN_IDS = ChannelGauge(
    "ledger_unknown_ids",
    "Message ids that are neither captured nor proven empty",
    CHANNEL_LABELS,
    combine=sum,
    registry=REGISTRY,
)
PROVEN_UP_TO = ChannelGauge(
    "ledger_proven_up_to", "Every requested id up to here is known", CHANNEL_LABELS, combine=min, registry=REGISTRY
)
DIFFERENCES = Counter(
    "telegram_differences_total",
    "Answers to what changed in a channel, and why a full audit was asked for instead",
    ["outcome"],
    registry=REGISTRY,
)
AUDITED_IDS = Counter("audit_ids_total", "Known ids that were read again and compared", registry=REGISTRY)
AUDIT_WAITING = Gauge("audit_posts_waiting", "Stored posts that a full audit has not looked at yet", registry=REGISTRY)
AUDIT_DISAGREEMENTS = Counter(
    "audit_disagreements_total", "What an audit found and repaired", ["kind"], registry=REGISTRY
)
COVERAGE = ChannelGauge(
    "ledger_coverage_percent", "Known share of the requested ids", CHANNEL_LABELS, combine=min, registry=REGISTRY
)
LATE_POSTS = Counter(
    "ledger_late_posts_total", "Posts that showed where a page had proven nothing, found and stored", registry=REGISTRY
)
LIVE_UPDATES = Counter("live_updates_total", "Updates that Telegram pushed", ["kind"], registry=REGISTRY)
LIVE_FAILURES = Counter("live_update_failures_total", "Updates that could not be saved", ["account"], registry=REGISTRY)
BACKFILL_JOBS = ChannelCounter(
    "backfill_jobs_total", "Backfills of a channel", CHANNEL_LABELS, "status", registry=REGISTRY
)

# Accounts
REQUESTS = Counter("telegram_requests_total", "Requests made", ["account", "method"], registry=REGISTRY)
FLOODS = Counter("telegram_floods_total", "Times Telegram asked to wait", ["account", "method"], registry=REGISTRY)
FLOOD_UNTIL = Gauge(
    "telegram_flood_until_ts_seconds", "When a method may be asked again", ["account", "method"], registry=REGISTRY
)
ACCOUNTS = Gauge("telegram_accounts", "Accounts by what they are good for", ["status"], registry=REGISTRY)
ACCOUNTS_HELD = Gauge("telegram_accounts_held", "Accounts that this process works with", registry=REGISTRY)

# Media
MEDIA_FILES = Counter("media_files_total", "Files of posts by what became of them", ["status"], registry=REGISTRY)
MEDIA_BYTES = Counter("media_bytes_total", "Bytes of files that were downloaded", registry=REGISTRY)
MEDIA_PENDING = Gauge("media_pending_files", "Files that wait for their download", registry=REGISTRY)

# The pipeline (SPEC 4.11, 8)
POSTS_PROCESSED = Counter(
    "posts_processed_total", "Events that a stage dealt with", ["stage", "success"], registry=REGISTRY
)
STAGE_EVENTS = Counter("stage_events_total", "Events by how they ended", ["stage", "outcome"], registry=REGISTRY)
STAGE_DURATION = Histogram(
    "stage_batch_duration_seconds",
    "How long a stage took for a batch",
    ["stage"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120),
    registry=REGISTRY,
)
STREAM_PENDING = Gauge(
    "stream_pending_size", "Entries delivered and not acknowledged", ["stream", "group"], registry=REGISTRY
)
STREAM_LAG = Gauge("stream_consumer_lag", "Entries not yet delivered", ["stream", "group"], registry=REGISTRY)
PIPELINE_BYTES = Gauge("pipeline_waiting_bytes", "Memory of Redis that waits for the stages", registry=REGISTRY)
PIPELINE_FULL = Gauge(
    "pipeline_full", "1 while nothing is published because STREAMS_MAX_MB are waiting", registry=REGISTRY
)
STAGE_OLDEST = Gauge("stage_oldest_waiting_seconds", "Age of what waits longest", ["stage"], registry=REGISTRY)
STAGE_WAITING = Gauge("stage_waiting_events", "Events that are tried again later", ["stage"], registry=REGISTRY)
DEAD_LETTERS = Gauge("dead_letters", "Dead letters that wait to be replayed or dropped", ["stage"], registry=REGISTRY)

# Models
AI_REQUESTS = Counter(
    "ai_requests_total", "Calls of a model by how they ended", ["provider", "ability", "outcome"], registry=REGISTRY
)
AI_TOKENS = Counter(
    "ai_tokens_total", "Tokens that models took", ["provider", "ability", "direction"], registry=REGISTRY
)
AI_COST = Counter(
    "ai_cost_total",
    "What remote models cost, in the currency of AI_PRICE_PER_1K_IN and _OUT",
    ["provider", "ability"],
    registry=REGISTRY,
)
AI_LATENCY = Histogram(
    "ai_latency_seconds",
    "How long a call of a model took, its repetitions included",
    ["provider", "ability"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
    registry=REGISTRY,
)
AI_RUBBISH = Counter(
    "ai_rubbish_total",
    "Answers of remote models that cannot be used: of no such form, vectors of zeros",
    ["provider", "ability"],
    registry=REGISTRY,
)
AI_BLOCKED = Gauge(
    "ai_blocked", "1 while a model waits for a person to act", ["provider", "ability"], registry=REGISTRY
)

# Crawling
CRAWL_PAGES = Counter("crawl_pages_total", "Pages asked for, by what became of them", ["outcome"], registry=REGISTRY)
CRAWL_BYTES = Counter("crawl_bytes_total", "Bytes of pages as they came over the wire", registry=REGISTRY)
CRAWL_SECONDS = Histogram(
    "crawl_page_seconds",
    "From asking for a page to its text, waits for politeness included",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40),
    registry=REGISTRY,
)

# Vision
WORKER_DEATHS = Counter(
    "worker_deaths_total",
    "Worker processes that were lost",
    ["worker", "reason"],
    registry=REGISTRY,
)
VISION_BUDGET_SPENT = Gauge(
    "vision_budget_spent_tokens",
    "Tokens for pictures since midnight UTC",
    ["tenant"],
    registry=REGISTRY,
)
VISION_BUDGET_LIMIT = Gauge(
    "vision_budget_limit_tokens", "Tokens for pictures that a tenant has per day", registry=REGISTRY
)
VISION_BUDGET_REFUSED = Counter(
    "vision_budget_refused_total", "Pictures that the budget put off", ["reason"], registry=REGISTRY
)
MODEL_BUDGET_SPENT = Gauge(
    "model_budget_spent_tokens",
    "Tokens of remote models for tags, vectors and answers since midnight UTC, of all processes",
    ["ability"],
    registry=REGISTRY,
)
MODEL_BUDGET_LIMIT = Gauge(
    "model_budget_limit_tokens", "Tokens that remote models may take per day; 0 without a limit", registry=REGISTRY
)
MODEL_BUDGET_REFUSED = Counter(
    "model_budget_refused_total", "Calls that were not made for the budget's sake", ["reason"], registry=REGISTRY
)
SWEPT = Counter("posts_published_again_total", "Posts found missing and told of again", ["kind"], registry=REGISTRY)
EXAMINED = Counter(
    "posts_examined_total", "Posts that were compared with what should be there of them", registry=REGISTRY
)
ENGINE_LOSSES = Counter(
    "engine_data_lost_total", "Times that an engine was found without what it had held", ["engine"], registry=REGISTRY
)
FILES_LOST = Counter("media_files_lost_total", "Files that vanished from the media store", registry=REGISTRY)
INDEX_REBUILD_REMAINING = Gauge(
    "index_rebuild_remaining_posts",
    "Posts to compare until a lost index is whole again; 0: none is lost",
    registry=REGISTRY,
)
INDEX_RESTORED = Counter(
    "index_posts_restored_total", "Posts that should have been in an index, and were put in again", registry=REGISTRY
)

# Periodic jobs (SPEC 5); their label is not `job`, which Prometheus keeps for itself
JOB_RUNS = Counter(
    "job_runs_total", "Runs of periodic jobs by how they ended", ["periodic_job", "outcome"], registry=REGISTRY
)
JOB_LAST_SUCCESS = Gauge(
    "job_last_success_ts_seconds", "When a periodic job last ended well, here", ["periodic_job"], registry=REGISTRY
)
JOB_SECONDS = Histogram(
    "job_duration_seconds",
    "How long a run of a periodic job took",
    ["periodic_job"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600),
    registry=REGISTRY,
)
DIGEST_ISSUES = Counter(
    "digest_issues_total", "Issues of digests: built, put off, sent, refused", ["outcome"], registry=REGISTRY
)


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
_begin(LIVE_UPDATES, ("NewPost", "Deleted", "Interrupted"))
_begin(MEDIA_FILES, ("stored", "adopted", "skipped", "postponed", "retried", "failed"))
_begin(CRAWL_PAGES, ("read", "unchanged", "retry", "skip", "reject"))
_begin(WORKER_DEATHS, ("page_reader",), ("not_started", "too_slow", "died", "nonsense"))
_begin(VISION_BUDGET_REFUSED, ("tokens", "busy"))
_begin(MODEL_BUDGET_REFUSED, ("tokens", "busy"))
_begin(SWEPT, ("remaining", "untagged", "unindexed", "unread", "unseen", "not_retagged", "unassembled"))
_begin(ENGINE_LOSSES, ("redis", "vectors", "graph", "media"))
_begin(DIGEST_ISSUES, ("built", "postponed", "sent", "refused"))
