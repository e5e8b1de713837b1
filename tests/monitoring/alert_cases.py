"""For every alert: series at which it fires, and series so near to them that it must not. A value per minute."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Case:
    """`at` is when it is looked at; `labels` are those of the alert that fires."""

    at: str
    fires: dict[str, str]
    silent: list[dict[str, str]]
    labels: dict[str, str] = field(default_factory=dict)


def parsing(below: str, above: str) -> dict[str, str]:
    return {
        'parsing_duration_seconds_bucket{le="60"}': below,
        'parsing_duration_seconds_bucket{le="120"}': above,
        'parsing_duration_seconds_bucket{le="+Inf"}': above,
    }


def latency(below: str, above: str) -> dict[str, str]:
    name = 'ai_latency_seconds_bucket{provider="gigachat",ability="tag",le='
    return {f'{name}"30"}}': below, f'{name}"60"}}': above, f'{name}"+Inf"}}': above}


MARK = 'parser_hwm_age_seconds{channel_id="1"}'
TICK, INTERVAL = 'scheduler_last_tick_ts_seconds{job="ingest"}', 'scheduler_interval_seconds{job="ingest"}'
RUNS = 'parser_runs_total{mode="incremental",status='
DEAD = 'channels{status="dead"}'
OVERDUE, ACTIVE = "channels_overdue", 'channels{status="active"}'
UNKNOWN = 'ledger_unknown_ids{channel_id="1",instance='
AUDIT = "audit_disagreements_total{kind="
ACCOUNTS = "telegram_accounts{status="
FILES = "media_files_total{status="
TASK = 'supervised_task_up{task="visits"}'
RESTARTS = 'supervised_task_restarts_total{task="visits"}'
OLDEST = 'stage_oldest_waiting_seconds{stage="tagging"}'
PROCESSED = 'posts_processed_total{stage="tagging",success='
LETTERS = 'dead_letters{stage="tagging"}'
LOST = 'engine_data_lost_total{engine="vectors"}'
AGAIN = 'posts_published_again_total{kind="unindexed"}'
JOBS = 'job_runs_total{periodic_job="digests",outcome='
DEATHS = 'worker_deaths_total{worker="local_worker",reason="died"}'
BLOCKED = 'ai_blocked{provider="gigachat",ability="tag"}'
RUBBISH = 'ai_rubbish_total{provider="gigachat", ability="tag"}'
SPENT, LIMIT = 'vision_budget_spent_tokens{tenant="t1"}', "vision_budget_limit_tokens"
TOKENS_TAG, TOKENS_EMBED = (f'model_budget_spent_tokens{{ability="{ability}"}}' for ability in ("tag", "embed"))
TOKENS_LIMIT = "model_budget_limit_tokens"

CASES = {
    "HwmAgeCritical": Case(
        at="6m",
        fires={MARK: "86401+60x10"},
        silent=[{MARK: "86400x10"}, {MARK: "86401x3 0x7"}],
    ),
    "SchedulerStale": Case(
        at="15m",
        fires={TICK: "60x20", INTERVAL: "300x20"},
        silent=[
            {TICK: "0+60x20", INTERVAL: "300x20"},
            {TICK: "300x20", INTERVAL: "300x20"},  # exactly two intervals ago
            {TICK: "910x20", INTERVAL: "300x20"},  # clocks differ by ten seconds
            {TICK: "0+60x20", INTERVAL: "300x20", 'scheduler_last_tick_ts_seconds{job="worker"}': "0x20"},
        ],
    ),
    "HighParsingLatency": Case(
        at="12m",
        fires=parsing("0+1x20", "0+10x20"),
        silent=[parsing("0+10x20", "0+10x20"), parsing("0+96x20", "0+100x20"), parsing("9x20", "99x20")],
    ),
    "SchedulerAbsent": Case(
        at="6m",
        fires={'scheduler_last_tick_ts_seconds{job="worker"}': "0x20"},
        silent=[{TICK: "1x20"}, {TICK: "0x3 1x17"}],
    ),
    "ChannelsFailing": Case(
        at="30m",
        fires={f'{RUNS}"failed"}}': "0+6x40", f'{RUNS}"ok"}}': "0+4x40"},
        silent=[
            {f'{RUNS}"failed"}}': "0+4x40", f'{RUNS}"ok"}}': "0+6x40"},
            {f'{RUNS}"failed"}}': "7x40", f'{RUNS}"ok"}}': "0x40"},  # nobody visits: another alert's business
            {f'{RUNS}"flood"}}': "0+9x40", f'{RUNS}"failed"}}': "0+1x40"},
        ],
    ),
    "ChannelsOverdue": Case(
        at="12m",
        fires={OVERDUE: "7x20", ACTIVE: "60x20"},
        silent=[
            {OVERDUE: "6x20", ACTIVE: "60x20"},
            {OVERDUE: "60x5 0x15", ACTIVE: "60x20"},
            {OVERDUE: "0x20", ACTIVE: "0x20"},
        ],
    ),
    "ClockWrong": Case(
        at="4m",
        fires={'clock_ahead_seconds{of="telegram"}': "-86400x10"},
        silent=[{'clock_ahead_seconds{of="telegram"}': "20x10"}, {'clock_ahead_seconds{of="telegram"}': "0 90 0 90 0"}],
        labels={"of": "telegram"},
    ),
    "ChannelsDead": Case(at="35m", fires={DEAD: "1x60"}, silent=[{DEAD: "0x60"}, {DEAD: "1x25 0x35"}]),
    "LedgerHoles": Case(
        at="125m",
        fires={f'{UNKNOWN}"a"}}': "3x150", f'{UNKNOWN}"b"}}': "3x150"},
        silent=[{f'{UNKNOWN}"a"}}': "0x150"}, {f'{UNKNOWN}"a"}}': "3x110 0x40"}],
    ),
    "AuditFoundMissing": Case(
        at="10m",
        fires={f'{AUDIT}"missing"}}': "0x5 1x20"},
        silent=[{f'{AUDIT}"missing"}}': "4x20"}, {f'{AUDIT}"missing"}}': "0x20", f'{AUDIT}"edited"}}': "0+1x20"}],
    ),
    "WitnessesDiffer": Case(
        at="6m",
        fires={"witness_differences_unseen": "1x10"},
        silent=[{"witness_differences_unseen": "0x10"}, {"witness_differences_unseen": "1x3 0x7"}],
    ),
    "NoAccount": Case(
        at="6m",
        fires={f'{ACCOUNTS}"active"}}': "0x10", f'{ACCOUNTS}"banned"}}': "1x10"},
        silent=[{f'{ACCOUNTS}"active"}}': "1x10"}, {f'{ACCOUNTS}"active"}}': "0x3 1x7"}],
    ),
    "AccountLost": Case(
        at="6m",
        fires={f'{ACCOUNTS}"active"}}': "2x10", f'{ACCOUNTS}"banned"}}': "1x10"},
        silent=[{f'{ACCOUNTS}"active"}}': "2x10", f'{ACCOUNTS}"banned"}}': "0x10"}],
        labels={"status": "banned"},
    ),
    "FloodWaits": Case(
        at="75m",
        fires={"parser_floodwait_seconds_total": "0+40x120"},
        silent=[{"parser_floodwait_seconds_total": "0+29x120"}, {"parser_floodwait_seconds_total": "9000x120"}],
    ),
    "MediaFailing": Case(
        at="40m",
        fires={f'{FILES}"failed"}}': "0+1x60"},
        silent=[
            {f'{FILES}"failed"}}': "0+0.1x60"},
            {f'{FILES}"failed"}}': "0x60", f'{FILES}"retried"}}': "0+9x60"},
        ],
    ),
    "RoleDown": Case(
        at="3m",
        fires={'up{job="worker",instance="w:8013"}': "0x10"},
        silent=[{'up{job="worker",instance="w:8013"}': "0 1x10"}, {'up{job="grafana",instance="g:3000"}': "0x10"}],
        labels={"job": "worker", "instance": "w:8013"},
    ),
    "EngineDown": Case(
        at="3m",
        fires={'engine_up{engine="redis"}': "1 0x10"},
        silent=[{'engine_up{engine="redis"}': "1x10"}, {'engine_up{engine="redis"}': "1 0 1 0 1"}],
        labels={"engine": "redis"},
    ),
    "PartStale": Case(
        at="3m",
        fires={'part_stale{kind="account",part="Alice"}': "0 1x10"},
        silent=[
            {'part_stale{kind="account",part="Alice"}': "0x10"},
            {'part_stale{kind="account",part="Alice"}': "0 1 0 1 0"},
        ],
        labels={"kind": "account", "part": "Alice"},
    ),
    "Unwell": Case(
        at="7m",
        fires={'health_troubles{level="failing"}': "0 1x10"},
        silent=[
            {'health_troubles{level="failing"}': "0x10", 'health_troubles{level="degraded"}': "3x10"},
            {'health_troubles{level="failing"}': "1x3 0x7"},
        ],
    ),
    "TaskDown": Case(
        at="6m", fires={TASK: "0x10"}, silent=[{TASK: "1x10"}, {TASK: "0x3 1x7"}], labels={"task": "visits"}
    ),
    "TaskRestarting": Case(
        at="16m",
        fires={RESTARTS: "0+1x30"},
        silent=[{RESTARTS: "0x10 1 2x20"}, {RESTARTS: "9x30"}],
        labels={"task": "visits"},
    ),
    "StageLate": Case(
        at="7m",
        fires={OLDEST: "601+60x20"},
        silent=[{OLDEST: "600x20"}, {OLDEST: "900x4 0x16"}],
        labels={"stage": "tagging"},
    ),
    "PipelineFull": Case(
        at="16m", fires={"pipeline_full": "1x20"}, silent=[{"pipeline_full": "0x20"}, {"pipeline_full": "1x10 0x10"}]
    ),
    "StageFailing": Case(
        at="30m",
        fires={f'{PROCESSED}"false"}}': "0+3x40", f'{PROCESSED}"true"}}': "0+7x40"},
        silent=[
            {f'{PROCESSED}"false"}}': "0+1x40", f'{PROCESSED}"true"}}': "0+9x40"},
            {f'{PROCESSED}"false"}}': "5x40", f'{PROCESSED}"true"}}': "0x40"},
        ],
        labels={"stage": "tagging"},
    ),
    "DeadLetters": Case(
        at="11m",
        fires={LETTERS: "2x20"},
        silent=[{LETTERS: "0x20"}, {LETTERS: "2x8 0x12"}],
        labels={"stage": "tagging"},
    ),
    "PostsPublishedAgain": Case(at="30m", fires={AGAIN: "0+10x60"}, silent=[{AGAIN: "0+1x60"}, {AGAIN: "500x60"}]),
    "EngineLostItsData": Case(
        at="30m", fires={LOST: "0x10 1x60"}, silent=[{LOST: "0x60"}, {LOST: "3x60"}], labels={"engine": "vectors"}
    ),
    "JobFailing": Case(
        at="60m",
        fires={f'{JOBS}"failed"}}': "0 1x14 2x15 3x15 4x30"},
        silent=[{f'{JOBS}"failed"}}': "0 1x90"}, {f'{JOBS}"failed"}}': "0x90", f'{JOBS}"done"}}': "0+1x90"}],
        labels={"periodic_job": "digests"},
    ),
    "WorkersDying": Case(
        at="16m", fires={DEATHS: "0+1x30"}, silent=[{DEATHS: "0x10 1x20"}], labels={"worker": "local_worker"}
    ),
    "ModelBlocked": Case(
        at="2m",
        fires={BLOCKED: "1x10"},
        silent=[{BLOCKED: "0x10"}, {BLOCKED: "0 0 1 0"}],
        labels={"provider": "gigachat", "ability": "tag"},
    ),
    "ModelAnswersRubbish": Case(
        at="30m",
        fires={RUBBISH: "0+1x60"},
        silent=[{RUBBISH: "0x10 3x60"}, {RUBBISH: "500x60"}],
        labels={"provider": "gigachat", "ability": "tag"},
    ),
    "ModelSlow": Case(
        at="21m",
        fires=latency("0+1x30", "0+10x30"),
        silent=[latency("0+10x30", "0+10x30"), latency("9x30", "99x30")],
        labels={"provider": "gigachat", "ability": "tag"},
    ),
    "VisionBudgetNearlySpent": Case(
        at="3m",
        fires={SPENT: "95x10", LIMIT: "100x10"},
        silent=[{SPENT: "90x10", LIMIT: "100x10"}, {SPENT: "5x10", LIMIT: "0x10"}],
        labels={"tenant": "t1"},
    ),
    "ModelBudgetNearlySpent": Case(
        at="3m",
        fires={TOKENS_TAG: "50x10", TOKENS_EMBED: "45x10", TOKENS_LIMIT: "100x10"},
        silent=[
            {TOKENS_TAG: "50x10", TOKENS_EMBED: "40x10", TOKENS_LIMIT: "100x10"},
            {TOKENS_TAG: "50x10", TOKENS_LIMIT: "0x10"},
        ],
    ),
}
