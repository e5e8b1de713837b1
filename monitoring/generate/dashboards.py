"""The four dashboards: incremental parsing as SPEC 6.3 says, capture, the stages, and the models."""

from __future__ import annotations

from monitoring.generate.alerts import BUDGET_SHARE, FRESHNESS, P95_MODEL, P95_PARSING
from monitoring.generate.described import Dashboard, Panel, Query

INCREMENTAL_PARSING = Dashboard(
    uid="incremental-parsing",
    title="Incremental Parsing",
    says="Whether channels are visited on time, how fast, and what that brings.",
    panels=(
        Panel(
            title="Parsing rate",
            says="New posts per second by mode, over 5 minutes. Incremental grows only with new posts.",
            queries=(Query("sum by (mode) (rate(posts_parsed_total[5m]))", "{{mode}}"),),
            unit="ops",
        ),
        Panel(
            title="Parsing latency p95",
            says="19 of 20 visits are quicker. Below 30 s in good running; above 60 s an alert fires.",
            queries=(Query(P95_PARSING, "p95"),),
            unit="s",
            limits=(30, 60),
        ),
        Panel(
            title="Empty ticks",
            says="Visits of the last 5 minutes that found nothing new, beside all that ended well.",
            queries=(
                Query('sum(increase(parser_runs_total{status="empty"}[5m]))', "nothing new"),
                Query('sum(increase(parser_runs_total{status=~"ok|empty"}[5m]))', "all"),
            ),
        ),
        Panel(
            title="Max HWM age",
            says="The oldest high-water mark: where a parse that is not finished has got to. 0 when all are finished.",
            queries=(Query("max(parser_hwm_age_seconds)", "oldest mark"),),
            unit="s",
            limits=(600, 86400),
        ),
        Panel(
            title="Forced historical",
            says="Visits of the last 24 hours whose mode was forced, by reason.",
            queries=(Query("sum by (reason) (increase(parser_mode_forced_total[24h]))", "{{reason}}"),),
            kind="stat",
        ),
        Panel(
            title="Scheduler freshness",
            says="Time since the last successful tick. Above two intervals an alert fires.",
            queries=(
                Query(FRESHNESS, "since the last tick"),
                Query("2 * max(scheduler_interval_seconds)", "two intervals"),
            ),
            unit="s",
        ),
    ),
)

CAPTURE = Dashboard(
    uid="capture",
    title="Capture",
    says="Coverage, accounts, floods, gaps and files.",
    panels=(
        Panel(
            title="Lowest coverage",
            says="Known share of the requested ids, of the channels that have least.",
            queries=(Query("bottomk(10, min by (channel_id) (ledger_coverage_percent))", "{{channel_id}}"),),
            unit="percent",
        ),
        Panel(
            title="Unknown ids",
            says="Message ids that were asked for and that nobody can speak for yet.",
            queries=(Query("sum(max by (channel_id) (ledger_unknown_ids))", "unknown"),),
        ),
        Panel(
            title="Channels by status",
            says="Dead ones failed so often that they are only tried now and then.",
            queries=(Query("max by (status) (channels)", "{{status}}"),),
        ),
        Panel(
            title="Visits by outcome",
            says="Visits per second.",
            queries=(Query("sum by (status) (rate(parser_runs_total[5m]))", "{{status}}"),),
            unit="ops",
        ),
        Panel(
            title="Retries",
            says="Visits tried again in the last hour, by reason.",
            queries=(Query("sum by (reason) (increase(parser_retries_total[1h]))", "{{reason}}"),),
        ),
        Panel(
            title="Due and longest unvisited",
            says="Channels that waited at the last tick, and the time since the last visit of whoever waits longest.",
            queries=(
                Query("max(scheduler_channels_due)", "channels due"),
                Query("max(incremental_watermark_age_seconds)", "seconds since a visit"),
            ),
        ),
        Panel(
            title="Accounts",
            says="Telegram accounts by what they are good for.",
            queries=(Query("max by (status) (telegram_accounts)", "{{status}}"),),
        ),
        Panel(
            title="Requests",
            says="Requests to Telegram per second.",
            queries=(Query("sum by (account, method) (rate(telegram_requests_total[5m]))", "{{account}} {{method}}"),),
            unit="reqps",
        ),
        Panel(
            title="Seconds of FloodWait",
            says="Time that Telegram made us wait for in the last hour.",
            queries=(Query("sum(increase(parser_floodwait_seconds_total[1h]))", "seconds"),),
            unit="s",
            limits=(600, 1800),
        ),
        Panel(
            title="Floods that last",
            says="How long a method must still not be asked; 0 when none.",
            queries=(
                Query(
                    "max by (account, method) (telegram_flood_until_ts_seconds - time()) > 0 or vector(0)",
                    "{{account}} {{method}}",
                ),
                Query("sum(increase(telegram_floods_total[1h])) or vector(0)", "floods of the last hour"),
            ),
            unit="s",
        ),
        Panel(
            title="Longest silences",
            says="Channels that are silent for longest, and the longest silence above its threshold.",
            queries=(
                Query("topk(10, max by (channel_id) (channel_gap_seconds))", "{{channel_id}}"),
                Query("max(posts_missing_duration_seconds)", "above its threshold"),
            ),
            unit="s",
        ),
        Panel(
            title="Looks at silences",
            says="What looks at unusually silent channels showed in the last hour. A hole is what a visit had missed.",
            queries=(Query("sum by (outcome) (increase(silence_looks_total[1h]))", "{{outcome}}"),),
        ),
        Panel(
            title="Thresholds and rhythm",
            says="Silence that is unusual now, and half of all intervals between posts are shorter than this.",
            queries=(
                Query("max(adaptive_threshold_seconds)", "highest threshold"),
                Query("min(adaptive_threshold_seconds)", "lowest threshold"),
                Query(
                    "histogram_quantile(0.5, sum by (le) (interarrival_seconds_bucket))",
                    "median interval since the start",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Backfills",
            says="Of the last hour.",
            queries=(Query("sum by (status) (increase(backfill_jobs_total[1h])) or vector(0)", "{{status}}"),),
        ),
        Panel(
            title="Audit",
            says="Known ids read again in the last 6 hours, and what differed.",
            queries=(
                Query("sum(increase(audit_ids_total[6h]))", "audited"),
                Query("sum by (kind) (increase(audit_disagreements_total[6h]))", "{{kind}}"),
            ),
        ),
        Panel(
            title="Live updates",
            says="What Telegram pushed, per second.",
            queries=(Query("sum by (kind) (rate(live_updates_total[5m]))", "{{kind}}"),),
            unit="ops",
        ),
        Panel(
            title="Edits, deletions and late posts",
            says="Per second.",
            queries=(
                Query("sum(rate(posts_edited_total[5m]))", "edited"),
                Query("sum(rate(posts_deleted_total[5m]))", "deleted"),
                Query("sum(rate(ledger_late_posts_total[5m]))", "late"),
            ),
            unit="ops",
        ),
        Panel(
            title="Files by outcome",
            says="Files of posts in the last hour, and how many wait.",
            queries=(
                Query("sum by (status) (increase(media_files_total[1h]))", "{{status}}"),
                Query("max(media_pending_files)", "waiting"),
            ),
        ),
        Panel(
            title="Downloads",
            says="Bytes of files per second.",
            queries=(Query("sum(rate(media_bytes_total[5m]))", "bytes"),),
            unit="Bps",
        ),
        Panel(
            title="Newest posts and visits",
            says="Time since any channel's newest post, and since the visit that is longest ago.",
            queries=(
                Query("time() - max(channel_last_post_timestamp_seconds)", "newest post"),
                Query("time() - min(parser_last_success_seconds > 0)", "oldest visit"),
            ),
            unit="s",
        ),
        Panel(
            title="The scheduler's lock",
            says="Attempts of the last hour. Lost ones end a tick.",
            queries=(Query("sum by (status) (increase(scheduler_lock_acquired_total[1h]))", "{{status}}"),),
        ),
    ),
)

PIPELINE = Dashboard(
    uid="pipeline",
    title="Pipeline",
    says="Every stage from parsing to the indexes, what waits for it, and the processes that run it.",
    panels=(
        Panel(
            title="Events by stage",
            says="Events that a stage dealt with, per second.",
            queries=(Query("sum by (stage) (rate(posts_processed_total[5m]))", "{{stage}}"),),
            unit="ops",
        ),
        Panel(
            title="Failures by stage",
            says="Events that are tried again later or became dead letters, per second.",
            queries=(Query('sum by (stage) (rate(posts_processed_total{success="false"}[5m]))', "{{stage}}"),),
            unit="ops",
        ),
        Panel(
            title="Outcomes",
            says="How events ended, per second.",
            queries=(Query("sum by (stage, outcome) (rate(stage_events_total[5m]))", "{{stage}} {{outcome}}"),),
            unit="ops",
        ),
        Panel(
            title="Batch p95",
            says="19 of 20 batches of a stage are quicker.",
            queries=(
                Query(
                    "histogram_quantile(0.95, sum by (stage, le) (rate(stage_batch_duration_seconds_bucket[5m])))",
                    "{{stage}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Oldest that waits",
            says="Age of the event that waits longest for a stage. Above 10 minutes an alert fires.",
            queries=(Query("max by (stage) (stage_oldest_waiting_seconds)", "{{stage}}"),),
            unit="s",
            limits=(600,),
        ),
        Panel(
            title="Stream lag",
            says="Entries that a stage has not been given yet.",
            queries=(Query("max by (stream, group) (stream_consumer_lag)", "{{group}} of {{stream}}"),),
        ),
        Panel(
            title="Pending",
            says="Entries that a stage was given and has not acknowledged.",
            queries=(Query("max by (stream, group) (stream_pending_size)", "{{group}} of {{stream}}"),),
        ),
        Panel(
            title="Tried again later",
            says="Events that wait for their next attempt.",
            queries=(Query("max by (stage) (stage_waiting_events)", "{{stage}}"),),
        ),
        Panel(
            title="Dead letters",
            says="Nobody replayed or dropped them yet.",
            queries=(Query("max by (stage) (dead_letters)", "{{stage}}"),),
            limits=(1,),
        ),
        Panel(
            title="Published again",
            says="Posts that the sweep found missing in the last hour.",
            queries=(Query("sum by (kind) (increase(posts_published_again_total[1h]))", "{{kind}}"),),
        ),
        Panel(
            title="Pages of links",
            says="Pages asked for, per second, by what became of them.",
            queries=(Query("sum by (outcome) (rate(crawl_pages_total[5m]))", "{{outcome}}"),),
            unit="ops",
        ),
        Panel(
            title="Time per page",
            says="Median and p95 of the last hour, waits for politeness included.",
            queries=(
                Query("histogram_quantile(0.5, sum by (le) (rate(crawl_page_seconds_bucket[1h])))", "median"),
                Query("histogram_quantile(0.95, sum by (le) (rate(crawl_page_seconds_bucket[1h])))", "p95"),
            ),
            unit="s",
        ),
        Panel(
            title="Bytes of pages and readers lost",
            says="Over the wire per second, and reader processes that a page killed in the last hour.",
            queries=(
                Query("sum(rate(crawl_bytes_total[5m]))", "bytes"),
                Query("sum by (reason) (increase(crawl_readers_lost_total[1h]))", "lost: {{reason}}"),
            ),
        ),
        Panel(
            title="Engines",
            says="1 while an engine answers.",
            queries=(Query("min by (engine) (engine_up)", "{{engine}}"),),
            kind="stat",
        ),
        Panel(
            title="Tasks that are down",
            says="Supervised tasks that do not run.",
            queries=(Query("sum by (task) (1 - supervised_task_up) > 0 or vector(0)", "{{task}}"),),
            limits=(1,),
        ),
        Panel(
            title="Restarts of tasks",
            says="Of the last hour.",
            queries=(Query("sum by (task) (increase(supervised_task_restarts_total[1h])) or vector(0)", "{{task}}"),),
        ),
        Panel(
            title="Periodic jobs",
            says="Runs of the last 24 hours by how they ended.",
            queries=(
                Query(
                    "sum by (periodic_job, outcome) (increase(job_runs_total[24h])) or vector(0)",
                    "{{periodic_job}} {{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Since jobs ended well",
            says="Time since the last good run of each, and 19 of 20 runs of the last day took less than this.",
            queries=(
                Query(
                    "time() - max by (periodic_job) (job_last_success_ts_seconds > 0) or vector(0)", "{{periodic_job}}"
                ),
                Query(
                    "histogram_quantile(0.95, sum by (periodic_job, le) (rate(job_duration_seconds_bucket[24h])))"
                    " or vector(0)",
                    "{{periodic_job}} p95",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Memory of processes",
            says="Resident, of each process that answers.",
            queries=(Query("process_resident_memory_bytes", "{{job}} {{instance}}"),),
            unit="bytes",
        ),
        Panel(
            title="CPU of processes",
            says="Cores in use.",
            queries=(Query("rate(process_cpu_seconds_total[5m])", "{{job}} {{instance}}"),),
        ),
    ),
)

AI = Dashboard(
    uid="ai",
    title="Models",
    says="What models cost, how long they take, and what the budgets leave.",
    since="now-24h",
    panels=(
        Panel(
            title="Cost of 24 hours",
            says="In the currency of AI_PRICE_PER_1K_IN and AI_PRICE_PER_1K_OUT; local models cost nothing.",
            queries=(Query("sum by (provider, ability) (increase(ai_cost_total[24h]))", "{{provider}} {{ability}}"),),
            kind="stat",
        ),
        Panel(
            title="Cost per hour",
            says="The same over time.",
            queries=(Query("sum by (provider, ability) (increase(ai_cost_total[1h]))", "{{provider}} {{ability}}"),),
        ),
        Panel(
            title="Tokens",
            says="Per second, to models and from them.",
            queries=(
                Query(
                    "sum by (provider, ability, direction) (rate(ai_tokens_total[5m]))",
                    "{{provider}} {{ability}} {{direction}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Vision budget",
            says="Share of today's tokens for pictures that a tenant has used. Above 0.9 an alert fires.",
            queries=(Query(f"{BUDGET_SHARE} or vector(0)", "{{tenant}}"),),
            unit="percentunit",
            limits=(0.9, 1),
        ),
        Panel(
            title="Tokens for pictures",
            says="Since midnight UTC, by tenant, and what each has per day.",
            queries=(
                Query("max by (tenant) (vision_budget_spent_tokens) or vector(0)", "{{tenant}}"),
                Query("max(vision_budget_limit_tokens)", "limit"),
            ),
        ),
        Panel(
            title="Put off by the budget",
            says="Pictures of the last hour, by reason.",
            queries=(Query("sum by (reason) (increase(vision_budget_refused_total[1h]))", "{{reason}}"),),
        ),
        Panel(
            title="Calls",
            says="Per second, by how they ended.",
            queries=(
                Query(
                    "sum by (provider, ability, outcome) (rate(ai_requests_total[5m]))",
                    "{{provider}} {{ability}} {{outcome}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Share of calls that fail",
            says="Over 5 minutes.",
            queries=(
                Query(
                    'sum by (provider, ability) (rate(ai_requests_total{outcome!="ok"}[5m]))'
                    " / sum by (provider, ability) (rate(ai_requests_total[5m]) > 0) or vector(0)",
                    "{{provider}} {{ability}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Latency p50",
            says="Half of the calls are quicker.",
            queries=(
                Query(
                    "histogram_quantile(0.5, sum by (provider, ability, le) (rate(ai_latency_seconds_bucket[10m])))",
                    "{{provider}} {{ability}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Latency p95",
            says="19 of 20 calls are quicker. Above 30 s an alert fires.",
            queries=(Query(P95_MODEL, "{{provider}} {{ability}}"),),
            unit="s",
            limits=(30,),
        ),
        Panel(
            title="Blocked models",
            says="1 while a model waits for a person to act: a key, a payment, a name.",
            queries=(Query("max by (provider, ability) (ai_blocked) or vector(0)", "{{provider}} {{ability}}"),),
            limits=(1,),
        ),
        Panel(
            title="Worker processes that died",
            says="Of the last hour: local models and the reading of pictures run in processes of their own.",
            queries=(
                Query(
                    "sum by (worker, reason) (increase(worker_deaths_total[1h])) or vector(0)", "{{worker}} {{reason}}"
                ),
            ),
        ),
    ),
)

DASHBOARDS = (INCREMENTAL_PARSING, CAPTURE, PIPELINE, AI)
