"""Every alert, once: Prometheus and Grafana get their rules from here, and each has a section in the runbooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RUNBOOKS = "docs/howto/runbooks.md"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A condition that a person should know of. `page` wakes somebody, `ticket` waits for the morning."""

    name: str
    expr: str
    lasts: str  # how long it must hold
    severity: Literal["page", "ticket"]
    summary: str
    dashboard: str  # where to look: its uid
    panel: str  # and the title of the panel

    @property
    def runbook(self) -> str:
        return f"{RUNBOOKS}#{self.name.lower()}"


P95_PARSING = "histogram_quantile(0.95, sum by (le) (rate(parsing_duration_seconds_bucket[5m])))"
FRESHNESS = "abs(time() - max(scheduler_last_tick_ts_seconds))"  # a tick in the future is none either
FAILED_SHARE = (
    'sum(rate(parser_runs_total{status="failed"}[15m])) / (sum(rate(parser_runs_total{status!="lease_lost"}[15m])) > 0)'
)
STAGE_FAILURES = (
    'sum by (stage) (rate(posts_processed_total{success="false"}[15m]))'
    " / (sum by (stage) (rate(posts_processed_total[15m])) > 0)"
)
P95_MODEL = "histogram_quantile(0.95, sum by (provider, ability, le) (rate(ai_latency_seconds_bucket[10m])))"
BUDGET_SHARE = (
    "max by (tenant) (vision_budget_spent_tokens) / on () group_left () (max(vision_budget_limit_tokens) > 0)"
)
MODEL_SHARE = "sum(max by (ability) (model_budget_spent_tokens)) / (max(model_budget_limit_tokens) > 0)"

# SPEC 6.3: these three belong to the dashboard of incremental parsing.
PARSING = (
    Alert(
        name="HwmAgeCritical",
        expr="max(parser_hwm_age_seconds) > 86400",
        lasts="5m",
        severity="page",
        summary="A parse that was interrupted has not been finished for a day",
        dashboard="incremental-parsing",
        panel="Max HWM age",
    ),
    Alert(
        name="SchedulerStale",
        expr=f"{FRESHNESS} > 2 * max(scheduler_interval_seconds)",
        lasts="1m",
        severity="page",
        summary="The scheduler has not ticked for more than two intervals",
        dashboard="incremental-parsing",
        panel="Scheduler freshness",
    ),
    Alert(
        name="HighParsingLatency",
        expr=f"{P95_PARSING} > 60",
        lasts="5m",
        severity="ticket",
        summary="One visit in twenty takes longer than a minute",
        dashboard="incremental-parsing",
        panel="Parsing latency p95",
    ),
)

CAPTURE = (
    Alert(
        name="SchedulerAbsent",
        expr="absent(scheduler_last_tick_ts_seconds > 0)",
        lasts="5m",
        severity="page",
        summary="No process has a scheduler that ticked: nothing is captured",
        dashboard="incremental-parsing",
        panel="Scheduler freshness",
    ),
    Alert(
        name="ChannelsFailing",
        expr=f"{FAILED_SHARE} > 0.5",
        lasts="10m",
        severity="page",
        summary="More than half of all visits fail",
        dashboard="capture",
        panel="Visits by outcome",
    ),
    Alert(
        name="ChannelsDead",
        expr='max(channels{status="dead"}) > 0',
        lasts="30m",
        severity="ticket",
        summary="A channel failed so often that it is only tried now and then",
        dashboard="capture",
        panel="Channels by status",
    ),
    Alert(
        name="LedgerHoles",
        expr="sum(max by (channel_id) (ledger_unknown_ids)) > 0",
        lasts="2h",
        severity="ticket",
        summary="Messages that were asked for are still unknown after two hours",
        dashboard="capture",
        panel="Unknown ids",
    ),
    Alert(
        name="AuditFoundMissing",
        expr='sum(increase(audit_disagreements_total{kind="missing"}[6h])) > 0',
        lasts="0s",
        severity="ticket",
        summary="An audit found posts that should have been stored (they are stored now)",
        dashboard="capture",
        panel="Audit",
    ),
    Alert(
        name="WitnessesDiffer",
        expr="max(witness_differences_unseen) > 0",
        lasts="5m",
        severity="ticket",
        summary="An account and the public preview of a channel tell different things",
        dashboard="capture",
        panel="Two witnesses",
    ),
    Alert(
        name="ChannelsOverdue",
        expr='max(channels_overdue) / (max(channels{status="active"}) > 0) > 0.1',
        lasts="10m",
        severity="page",
        summary="More than a tenth of the channels were not read by the time that was promised",
        dashboard="capture",
        panel="Channels by status",
    ),
    Alert(
        name="ClockWrong",
        expr="max by (of) (abs(clock_ahead_seconds)) > 20",
        lasts="2m",
        severity="page",
        summary="The clock of a machine differs from that of the {{ $labels.of }} by more than 20 s",
        dashboard="capture",
        panel="Clocks",
    ),
    Alert(
        name="NoAccount",
        expr='max(telegram_accounts{status="active"}) == 0',
        lasts="5m",
        severity="page",
        summary="No Telegram account can read",
        dashboard="capture",
        panel="Accounts",
    ),
    Alert(
        name="AccountLost",
        expr='max by (status) (telegram_accounts{status=~"revoked|banned|unusable"}) > 0',
        lasts="5m",
        severity="ticket",
        summary="A Telegram account is {{ $labels.status }}",
        dashboard="capture",
        panel="Accounts",
    ),
    Alert(
        name="FloodWaits",
        expr="sum(increase(parser_floodwait_seconds_total[1h])) > 1800",
        lasts="10m",
        severity="ticket",
        summary="Telegram made us wait for more than half of the last hour",
        dashboard="capture",
        panel="Seconds of FloodWait",
    ),
    Alert(
        name="MediaFailing",
        expr='sum(increase(media_files_total{status="failed"}[1h])) > 10',
        lasts="10m",
        severity="ticket",
        summary="Files of posts cannot be downloaded",
        dashboard="capture",
        panel="Files by outcome",
    ),
)

PIPELINE = (
    Alert(
        name="RoleDown",
        expr='up{job=~"ingest|worker|api|bot"} == 0',
        lasts="2m",
        severity="page",
        summary="{{ $labels.job }} at {{ $labels.instance }} does not answer",
        dashboard="pipeline",
        panel="Memory of processes",
    ),
    Alert(
        name="EngineDown",
        expr="min by (engine) (engine_up) == 0",
        lasts="1m",
        severity="page",
        summary="{{ $labels.engine }} does not answer",
        dashboard="pipeline",
        panel="Engines",
    ),
    Alert(
        name="PartStale",
        expr="max by (kind, part) (part_stale) == 1",
        lasts="1m",
        severity="page",
        summary="{{ $labels.kind }} {{ $labels.part }} is tried and achieves nothing",
        dashboard="pipeline",
        panel="Parts that achieve nothing",
    ),
    Alert(
        name="Unwell",
        expr='max(health_troubles{level="failing"}) > 0',
        lasts="5m",
        severity="page",
        summary="Health has said for five minutes that something does not work at all",
        dashboard="pipeline",
        panel="Troubles",
    ),
    Alert(
        name="TaskDown",
        expr="min by (task) (supervised_task_up) == 0",
        lasts="5m",
        severity="page",
        summary="The task {{ $labels.task }} does not come up again",
        dashboard="pipeline",
        panel="Tasks that are down",
    ),
    Alert(
        name="TaskRestarting",
        expr="sum by (task) (increase(supervised_task_restarts_total[15m])) > 3",
        lasts="0s",
        severity="ticket",
        summary="The task {{ $labels.task }} ends again and again",
        dashboard="pipeline",
        panel="Restarts of tasks",
    ),
    Alert(
        name="StageLate",
        expr="max by (stage) (stage_oldest_waiting_seconds) > 600",
        lasts="5m",
        severity="page",
        summary="Events wait for {{ $labels.stage }} for more than ten minutes",
        dashboard="pipeline",
        panel="Oldest that waits",
    ),
    Alert(
        name="PipelineFull",
        expr="max(pipeline_full) > 0",
        lasts="15m",
        severity="ticket",
        summary="The stages are so far behind that new events wait in PostgreSQL and history is not read on",
        dashboard="pipeline",
        panel="Held back",
    ),
    Alert(
        name="StageFailing",
        expr=f"{STAGE_FAILURES} > 0.2",
        lasts="10m",
        severity="ticket",
        summary="{{ $labels.stage }} fails with more than a fifth of its events",
        dashboard="pipeline",
        panel="Failures by stage",
    ),
    Alert(
        name="DeadLetters",
        expr="max by (stage) (dead_letters) > 0",
        lasts="10m",
        severity="ticket",
        summary="{{ $labels.stage }} has dead letters that nobody looked at",
        dashboard="pipeline",
        panel="Dead letters",
    ),
    Alert(
        name="PostsPublishedAgain",
        expr="sum(increase(posts_published_again_total[1h])) > 100",
        lasts="0s",
        severity="ticket",
        summary="The reconciler found many posts that the pipeline had lost sight of",
        dashboard="pipeline",
        panel="Published again",
    ),
    Alert(
        name="EngineLostItsData",
        expr="sum by (engine) (increase(engine_data_lost_total[1h])) > 0",
        lasts="0s",
        severity="ticket",
        summary="{{ $labels.engine }} was found without what it had held; it is brought back from PostgreSQL",
        dashboard="pipeline",
        panel="Lost by engines",
    ),
    Alert(
        name="JobFailing",
        expr='sum by (periodic_job) (increase(job_runs_total{outcome="failed"}[6h])) > 2',
        lasts="0s",
        severity="ticket",
        summary="The periodic job {{ $labels.periodic_job }} fails again and again",
        dashboard="pipeline",
        panel="Periodic jobs",
    ),
    Alert(
        name="WorkersDying",
        expr='sum by (worker) (increase(worker_deaths_total{worker!="page_reader"}[15m])) > 3',
        lasts="0s",
        severity="ticket",
        summary="Processes of {{ $labels.worker }} die again and again",
        dashboard="ai",
        panel="Worker processes that died",
    ),
)

MODELS = (
    Alert(
        name="ModelBlocked",
        expr="max by (provider, ability) (ai_blocked) == 1",
        lasts="1m",
        severity="page",
        summary="{{ $labels.provider }} refuses {{ $labels.ability }} until somebody acts",
        dashboard="ai",
        panel="Blocked models",
    ),
    Alert(
        name="ModelAnswersRubbish",
        expr="sum by (provider, ability) (increase(ai_rubbish_total[30m])) > 10",
        lasts="0s",
        severity="ticket",
        summary="{{ $labels.provider }} answers {{ $labels.ability }} with what cannot be used",
        dashboard="ai",
        panel="Rubbish",
    ),
    Alert(
        name="ModelSlow",
        expr=f"{P95_MODEL} > 30",
        lasts="10m",
        severity="ticket",
        summary="{{ $labels.provider }} takes longer than 30 s for {{ $labels.ability }}",
        dashboard="ai",
        panel="Latency p95",
    ),
    Alert(
        name="VisionBudgetNearlySpent",
        expr=f"{BUDGET_SHARE} > 0.9",
        lasts="1m",
        severity="ticket",
        summary="Tenant {{ $labels.tenant }} has used nine tenths of today's tokens for pictures",
        dashboard="ai",
        panel="Vision budget",
    ),
    Alert(
        name="ModelBudgetNearlySpent",
        expr=f"{MODEL_SHARE} > 0.9",
        lasts="1m",
        severity="ticket",
        summary="Nine tenths of today's tokens of remote models are used",
        dashboard="ai",
        panel="Model budget",
    ),
)

GROUPS = {"parsing": PARSING, "capture": CAPTURE, "pipeline": PIPELINE, "models": MODELS}
ALERTS = tuple(alert for group in GROUPS.values() for alert in group)
