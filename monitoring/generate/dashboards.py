"""The four dashboards: incremental parsing as SPEC 6.3 says, capture, the stages, and the models."""

from __future__ import annotations

from monitoring.generate.alerts import BUDGET_SHARE, FRESHNESS, MODEL_SHARE, P95_MODEL, P95_PARSING
from monitoring.generate.described import Dashboard, Query, by, panel

INCREMENTAL_PARSING = Dashboard(
    uid="incremental-parsing",
    title="Incremental Parsing",
    says="Whether channels are visited on time, how fast, and what that brings.",
    panels=(
        panel(
            "Parsing rate",
            "New posts per second by mode, over 5 minutes. Incremental grows only with new posts.",
            by("mode", "rate(posts_parsed_total[5m])"),
            unit="ops",
        ),
        panel(
            "Parsing latency p95",
            "19 of 20 visits are quicker. Below 30 s in good running; above 60 s an alert fires.",
            Query(P95_PARSING, "p95"),
            unit="s",
            limits=(30, 60),
        ),
        panel(
            "Empty ticks",
            "Visits of the last 5 minutes that found nothing new, beside all that ended well.",
            Query('sum(increase(parser_runs_total{status="empty"}[5m]))', "nothing new"),
            Query('sum(increase(parser_runs_total{status=~"ok|empty"}[5m]))', "all"),
        ),
        panel(
            "Max HWM age",
            "The oldest high-water mark: where a parse that is not finished has got to. 0 when all are finished.",
            Query("max(parser_hwm_age_seconds)", "oldest mark"),
            unit="s",
            limits=(600, 86400),
        ),
        panel(
            "Forced historical",
            "Visits of the last 24 hours whose mode was forced, by reason.",
            by("reason", "increase(parser_mode_forced_total[24h])"),
            kind="stat",
        ),
        panel(
            "Scheduler freshness",
            "Time since the last successful tick. Above two intervals an alert fires.",
            Query(FRESHNESS, "since the last tick"),
            Query("2 * max(scheduler_interval_seconds)", "two intervals"),
            unit="s",
        ),
    ),
)

CAPTURE = Dashboard(
    uid="capture",
    title="Capture",
    says="Coverage, accounts, floods, gaps and files.",
    panels=(
        panel(
            "Lowest coverage",
            "Known share of the requested ids, of the channels that have least.",
            Query("bottomk(10, min by (channel_id) (ledger_coverage_percent))", "{{channel_id}}"),
            unit="percent",
        ),
        panel(
            "Unknown ids",
            "Message ids that were asked for and that nobody can speak for yet.",
            Query("sum(max by (channel_id) (ledger_unknown_ids))", "unknown"),
        ),
        panel(
            "Channels by status",
            "Dead ones failed so often that they are only tried now and then; overdue ones were not read in time.",
            by("status", "channels", how="max"),
            Query("max(channels_overdue)", "overdue"),
        ),
        panel(
            "Clocks",
            "How far the clock of a machine is ahead of the database's and of Telegram's.",
            by("of", "clock_ahead_seconds", how="max"),
            unit="s",
            limits=(20,),
        ),
        panel("Visits by outcome", "Visits per second.", by("status", "rate(parser_runs_total[5m])"), unit="ops"),
        panel(
            "Retries",
            "Visits tried again in the last hour, by reason.",
            by("reason", "increase(parser_retries_total[1h])"),
        ),
        panel(
            "Due and longest unvisited",
            "Channels that waited at the last tick, and the time since the last visit of whoever waits longest.",
            Query("max(scheduler_channels_due)", "channels due"),
            Query("max(incremental_watermark_age_seconds)", "seconds since a visit"),
        ),
        panel(
            "Accounts",
            "Telegram accounts by what they are good for, and how many some process works with.",
            by("status", "telegram_accounts", how="max"),
            Query("sum(telegram_accounts_held)", "held by a process"),
        ),
        panel(
            "Requests",
            "Requests to Telegram per second.",
            by("account, method", "rate(telegram_requests_total[5m])"),
            unit="reqps",
        ),
        panel(
            "Seconds of FloodWait",
            "Time that Telegram made us wait for in the last hour.",
            Query("sum(increase(parser_floodwait_seconds_total[1h]))", "seconds"),
            unit="s",
            limits=(600, 1800),
        ),
        panel(
            "Floods that last",
            "How long a method must still not be asked; 0 when none.",
            Query(
                "max by (account, method) (telegram_flood_until_ts_seconds - time()) > 0 or vector(0)",
                "{{account}} {{method}}",
            ),
            Query("sum(increase(telegram_floods_total[1h])) or vector(0)", "floods of the last hour"),
            unit="s",
        ),
        panel(
            "Longest silences",
            "Channels that are silent for longest, and the longest silence above its threshold.",
            Query("topk(10, max by (channel_id) (channel_gap_seconds))", "{{channel_id}}"),
            Query("max(posts_missing_duration_seconds)", "above its threshold"),
            unit="s",
        ),
        panel(
            "Looks at silences",
            "What looks at unusually silent channels showed in the last hour. A hole is what a visit had missed.",
            by("outcome", "increase(silence_looks_total[1h])"),
        ),
        panel(
            "Thresholds and rhythm",
            "Silence that is unusual now, and half of all intervals between posts are shorter than this.",
            Query("max(adaptive_threshold_seconds)", "highest threshold"),
            Query("min(adaptive_threshold_seconds)", "lowest threshold"),
            Query(
                "histogram_quantile(0.5, sum by (le) (interarrival_seconds_bucket))", "median interval since the start"
            ),
            unit="s",
        ),
        panel("Backfills", "Of the last hour.", by("status", "increase(backfill_jobs_total[1h])", or_zero=True)),
        panel(
            "Audit",
            "Known ids read again in the last 6 hours, what differed, and posts that a full audit has still to see.",
            Query("sum(increase(audit_ids_total[6h]))", "audited"),
            by("kind", "increase(audit_disagreements_total[6h])"),
            Query("max(audit_posts_waiting)", "waiting for a full audit"),
        ),
        panel(
            "Two witnesses",
            "Ids of which an account and the public preview were compared in the last day, and what differed.",
            Query("sum(increase(witness_ids_total[1d]))", "compared"),
            by("kind", "increase(witness_differences_total[1d])"),
            Query("max(witness_differences_unseen)", "not seen by an admin"),
        ),
        panel(
            "Live updates",
            "What Telegram pushed, per second, and what of it could not be saved.",
            by("kind", "rate(live_updates_total[5m])"),
            Query("sum by (account) (rate(live_update_failures_total[5m])) or vector(0)", "failed: {{account}}"),
            unit="ops",
        ),
        panel(
            "What changed while away",
            "Answers of Telegram to what changed in a channel, in the last hour.",
            by("outcome", "increase(telegram_differences_total[1h])", or_zero=True),
        ),
        panel(
            "Edits, deletions and late posts",
            "Per second.",
            Query("sum(rate(posts_edited_total[5m]))", "edited"),
            Query("sum(rate(posts_deleted_total[5m]))", "deleted"),
            Query("sum(rate(ledger_late_posts_total[5m]))", "late"),
            unit="ops",
        ),
        panel(
            "Files by outcome",
            "Files of posts in the last hour, and how many wait.",
            by("status", "increase(media_files_total[1h])"),
            Query("max(media_pending_files)", "waiting"),
        ),
        panel(
            "Downloads", "Bytes of files per second.", Query("sum(rate(media_bytes_total[5m]))", "bytes"), unit="Bps"
        ),
        panel(
            "Newest posts and visits",
            "Time since any channel's newest post, and since the visit that is longest ago.",
            Query("time() - max(channel_last_post_timestamp_seconds)", "newest post"),
            Query("time() - min(parser_last_success_seconds > 0)", "oldest visit"),
            unit="s",
        ),
        panel(
            "The scheduler's lock",
            "Attempts of the last hour. Lost ones end a tick.",
            by("status", "increase(scheduler_lock_acquired_total[1h])"),
        ),
    ),
)

PIPELINE = Dashboard(
    uid="pipeline",
    title="Pipeline",
    says="Every stage from parsing to the indexes, what waits for it, and the processes that run it.",
    panels=(
        panel(
            "Events by stage",
            "Events that a stage dealt with, per second.",
            by("stage", "rate(posts_processed_total[5m])"),
            unit="ops",
        ),
        panel(
            "Failures by stage",
            "Events that are tried again later or became dead letters, per second.",
            by("stage", 'rate(posts_processed_total{success="false"}[5m])'),
            unit="ops",
        ),
        panel(
            "Outcomes",
            "How events ended, per second.",
            by("stage, outcome", "rate(stage_events_total[5m])"),
            unit="ops",
        ),
        panel(
            "Batch p95",
            "19 of 20 batches of a stage are quicker.",
            Query(
                "histogram_quantile(0.95, sum by (stage, le) (rate(stage_batch_duration_seconds_bucket[5m])))",
                "{{stage}}",
            ),
            unit="s",
        ),
        panel(
            "Oldest that waits",
            "Age of the event that waits longest for a stage. Above 10 minutes an alert fires.",
            by("stage", "stage_oldest_waiting_seconds", how="max"),
            unit="s",
            limits=(600,),
        ),
        panel(
            "Stream lag",
            "Entries that a stage has not been given yet.",
            by("stream, group", "stream_consumer_lag", how="max", legend="{{group}} of {{stream}}"),
        ),
        panel(
            "Pending",
            "Entries that a stage was given and has not acknowledged.",
            by("stream, group", "stream_pending_size", how="max", legend="{{group}} of {{stream}}"),
        ),
        panel(
            "Tried again later",
            "Events that wait for their next attempt.",
            by("stage", "stage_waiting_events", how="max"),
        ),
        panel(
            "Dead letters", "Nobody replayed or dropped them yet.", by("stage", "dead_letters", how="max"), limits=(1,)
        ),
        panel(
            "Published again",
            "Posts that the reconciler found missing in the last hour.",
            by("kind", "increase(posts_published_again_total[1h])"),
        ),
        panel(
            "Lost by engines",
            "Times in the last hour that Redis, an index or the media store was found without what it had held.",
            by("engine", "increase(engine_data_lost_total[1h])"),
        ),
        panel(
            "Rebuild of indexes",
            "Posts to compare until a lost index is whole again.",
            Query("max(index_rebuild_remaining_posts)", "posts"),
        ),
        panel(
            "Looked at and brought back",
            "Per hour: posts compared with what should be there of them, index entries and files that were missing.",
            Query("sum(increase(posts_examined_total[1h]))", "compared"),
            Query("sum(increase(index_posts_restored_total[1h]))", "index entries"),
            Query("sum(increase(media_files_lost_total[1h]))", "files"),
        ),
        panel(
            "Pages of links",
            "Pages asked for, per second, by what became of them.",
            by("outcome", "rate(crawl_pages_total[5m])"),
            unit="ops",
        ),
        panel(
            "Time per page",
            "Median and p95 of the last hour, waits for politeness included.",
            Query("histogram_quantile(0.5, sum by (le) (rate(crawl_page_seconds_bucket[1h])))", "median"),
            Query("histogram_quantile(0.95, sum by (le) (rate(crawl_page_seconds_bucket[1h])))", "p95"),
            unit="s",
        ),
        panel(
            "Bytes of pages and readers lost",
            "Over the wire per second, and reader processes that a page killed in the last hour.",
            Query("sum(rate(crawl_bytes_total[5m]))", "bytes"),
            by("reason", 'increase(worker_deaths_total{worker="page_reader"}[1h])', legend="lost: {{reason}}"),
        ),
        panel("Engines", "1 while an engine answers.", by("engine", "engine_up", how="min"), kind="stat"),
        panel(
            "Troubles",
            "What /health finds wrong: failing means that something does not work at all.",
            by("level", "health_troubles", how="max", or_zero=True),
            limits=(1,),
        ),
        panel(
            "Parts that achieve nothing",
            "Accounts, listeners, stages and others that were tried in vain for too long.",
            Query("max by (kind, part) (part_stale) > 0 or vector(0)", "{{kind}} {{part}}"),
            limits=(1,),
        ),
        panel(
            "Tasks that are down",
            "Supervised tasks that do not run.",
            Query("sum by (task) (1 - supervised_task_up) > 0 or vector(0)", "{{task}}"),
            limits=(1,),
        ),
        panel(
            "Restarts of tasks",
            "Of the last hour.",
            by("task", "increase(supervised_task_restarts_total[1h])", or_zero=True),
        ),
        panel(
            "Periodic jobs",
            "Runs of the last 24 hours by how they ended.",
            by("periodic_job, outcome", "increase(job_runs_total[24h])", or_zero=True),
        ),
        panel(
            "Since jobs ended well",
            "Time since the last good run of each, and 19 of 20 runs of the last day took less than this.",
            Query("time() - max by (periodic_job) (job_last_success_ts_seconds > 0) or vector(0)", "{{periodic_job}}"),
            Query(
                "histogram_quantile(0.95, sum by (periodic_job, le) (rate(job_duration_seconds_bucket[24h])))"
                " or vector(0)",
                "{{periodic_job}} p95",
            ),
            unit="s",
        ),
        panel(
            "Memory of processes",
            "Resident, of each process that answers.",
            Query("process_resident_memory_bytes", "{{job}} {{instance}}"),
            unit="bytes",
        ),
        panel(
            "CPU of processes", "Cores in use.", Query("rate(process_cpu_seconds_total[5m])", "{{job}} {{instance}}")
        ),
        panel(
            "Issues of digests",
            "Of the last 24 hours: built, put off, sent, refused.",
            by("outcome", "increase(digest_issues_total[24h])"),
        ),
        panel(
            "What waits in Redis",
            "Memory of everything that waits for a stage. With STREAMS_MAX_MB nothing is added to it.",
            Query("max(pipeline_waiting_bytes)", "waiting"),
            unit="bytes",
        ),
        panel(
            "Held back",
            "1 while new events wait in PostgreSQL, because the stages are too slow for them. Nothing is lost.",
            Query("max(pipeline_full)", "held back"),
            limits=(1,),
        ),
    ),
)

AI = Dashboard(
    uid="ai",
    title="Models",
    says="What models cost, how long they take, and what the budgets leave.",
    since="now-24h",
    panels=(
        panel(
            "Cost of 24 hours",
            "In the currency of AI_PRICE_PER_1K_IN and AI_PRICE_PER_1K_OUT; local models cost nothing.",
            by("provider, ability", "increase(ai_cost_total[24h])"),
            kind="stat",
        ),
        panel("Cost per hour", "The same over time.", by("provider, ability", "increase(ai_cost_total[1h])")),
        panel(
            "Tokens",
            "Per second, to models and from them.",
            by("provider, ability, direction", "rate(ai_tokens_total[5m])"),
            unit="ops",
        ),
        panel(
            "Vision budget",
            "Share of today's tokens for pictures that a tenant has used. Above 0.9 an alert fires.",
            Query(f"{BUDGET_SHARE} or vector(0)", "{{tenant}}"),
            unit="percentunit",
            limits=(0.9, 1),
        ),
        panel(
            "Tokens for pictures",
            "Since midnight UTC, by tenant, and what each has per day.",
            by("tenant", "vision_budget_spent_tokens", how="max", or_zero=True),
            Query("max(vision_budget_limit_tokens)", "limit"),
        ),
        panel(
            "Put off by the budget",
            "Pictures of the last hour, by reason.",
            by("reason", "increase(vision_budget_refused_total[1h])"),
        ),
        panel(
            "Model budget",
            "Share of today's tokens for tags, vectors and answers that is used. Above 0.9 an alert fires.",
            Query(f"{MODEL_SHARE} or vector(0)", "used"),
            unit="percentunit",
            limits=(0.9, 1),
        ),
        panel(
            "Tokens for tags, vectors and answers",
            "Since midnight UTC, by ability, and what there is per day.",
            by("ability", "model_budget_spent_tokens", how="max", or_zero=True),
            Query("max(model_budget_limit_tokens)", "limit"),
        ),
        panel(
            "Not asked for the budget's sake",
            "Calls of the last hour, by reason.",
            by("reason", "increase(model_budget_refused_total[1h])"),
        ),
        panel(
            "Calls",
            "Per second, by how they ended.",
            by("provider, ability, outcome", "rate(ai_requests_total[5m])"),
            unit="ops",
        ),
        panel(
            "Share of calls that fail",
            "Over 5 minutes.",
            Query(
                'sum by (provider, ability) (rate(ai_requests_total{outcome!="ok"}[5m]))'
                " / sum by (provider, ability) (rate(ai_requests_total[5m]) > 0) or vector(0)",
                "{{provider}} {{ability}}",
            ),
            unit="percentunit",
        ),
        panel(
            "Latency p50",
            "Half of the calls are quicker.",
            Query(
                "histogram_quantile(0.5, sum by (provider, ability, le) (rate(ai_latency_seconds_bucket[10m])))",
                "{{provider}} {{ability}}",
            ),
            unit="s",
        ),
        panel(
            "Latency p95",
            "19 of 20 calls are quicker. Above 30 s an alert fires.",
            Query(P95_MODEL, "{{provider}} {{ability}}"),
            unit="s",
            limits=(30,),
        ),
        panel(
            "Rubbish",
            "Answers of the last hour that cannot be used: of no such form, vectors of zeros. Posts wait meanwhile.",
            by("provider, ability", "increase(ai_rubbish_total[1h])", or_zero=True),
        ),
        panel(
            "Blocked models",
            "1 while a model waits for a person to act: a key, a payment, a name.",
            by("provider, ability", "ai_blocked", how="max", or_zero=True),
            limits=(1,),
        ),
        panel(
            "Worker processes that died",
            "Of the last hour: local models and the reading of pictures run in processes of their own.",
            by("worker, reason", "increase(worker_deaths_total[1h])", or_zero=True),
        ),
    ),
)

DASHBOARDS = (INCREMENTAL_PARSING, CAPTURE, PIPELINE, AI)
