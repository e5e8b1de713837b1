"""Health and metrics: briefly for everybody, in full for who runs the system, metrics for what watches the machine."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict

from telegram_assistant.health import Level
from telegram_assistant.http.dependencies import AdminDep, ServicesDep, get_caller
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.services.upkeep import only_the_operator

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

router = APIRouter(prefix="/health", tags=["health"])
outside = APIRouter(include_in_schema=False)


class HealthAnswer(BaseModel):
    """Whether this process can answer. What is wrong stands in the details, which are for admins.

    `degraded`: it answers, though not all of the system is well. Only `failing` is 503: a process leaves the service
    for its own troubles and never for those of another role.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ok", "demo": False}]})

    status: Literal["ok", "degraded", "failing"]
    demo: bool


@router.get(
    "",
    operation_id="get_health",
    summary="Whether this process can answer; needs no credential",
    response_model=HealthAnswer,
    responses={503: {"model": HealthAnswer, "description": "It cannot answer: an engine that it needs is away."}},
)
async def brief(services: ServicesDep) -> JSONResponse:
    health = services.health
    status: Literal["ok", "degraded", "failing"] = "failing"
    if await health.can_serve():
        status = "ok" if health.level is Level.OK else "degraded"  # as the last look found it: no role is waited for
    answer = HealthAnswer(status=status, demo=health.demo)
    return JSONResponse(answer.model_dump(), status_code=503 if status == "failing" else 200)


@router.get("/details", operation_id="get_health_details", summary="Every task, engine and role (for who runs it all)")
async def full(services: ServicesDep, admin: AdminDep) -> dict[str, Any]:
    """For admins of the first tenant: the report names what all tenants watch."""
    only_the_operator(admin)
    return await services.health.details()


@outside.get("/health")
async def brief_outside(services: ServicesDep) -> JSONResponse:
    return await brief(services)


@outside.get("/health/details")
async def full_outside(services: ServicesDep, admin: AdminDep) -> dict[str, Any]:
    return await full(services, admin)


@outside.get("/metrics")
async def metrics(request: Request, services: ServicesDep) -> Response:
    """For Prometheus on this machine, or with the key of the operator."""
    if not _is_here(request):
        only_the_operator(await get_caller(request))
    await services.health.probe_engines()  # metrics may be asked for first
    services.health.show_freshness()
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)


def _is_here(request: Request) -> bool:
    """From loopback itself: what a proxy on this machine hands on comes from elsewhere."""
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False
