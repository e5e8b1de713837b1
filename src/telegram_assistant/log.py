"""Structured logs: for people on a console, as JSON for machines. Tracebacks are always written (SPEC 6.4, 7.4)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import Processor


def configure_logging(*, json: bool, level: str, stream: TextIO | None = None) -> None:
    """Send our logs and the standard library's through one chain to `stream` (stderr by default)."""
    out = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # In both formats without local variables: passwords and sessions are among them.
    render: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if json:
        render += [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    else:
        plain = structlog.dev.plain_traceback  # rich's boxes are wide
        render += [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)]

    handler = logging.StreamHandler(out)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=render))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Telethon and the web server say at INFO what we count ourselves.
    for noisy in (
        "telethon",
        "aiogram",
        "aiohttp",
        "apscheduler",
        "uvicorn",
        "alembic",
        "sqlalchemy",
        "pymorphy3",
        "httpx",
        "httpcore",
        "neo4j",
        "trafilatura",
    ):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


@contextmanager
def nothing_bound() -> Iterator[None]:
    """Tasks that begin here, and outlive what is done now, do not log whose turn it was when they began."""
    kept = get_contextvars()
    clear_contextvars()
    try:
        yield
    finally:
        clear_contextvars()
        bind_contextvars(**kept)
