"""A traceback always reaches the log, whoever logs it and in both formats (SPEC 6.4, 7.4; LESSONS 2)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from telegram_assistant.log import configure_logging, get_logger

pytestmark = pytest.mark.unit

FORMATS = pytest.mark.parametrize("as_json", [True, False], ids=["json", "console"])


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()


def logged(as_json: bool, level: str = "INFO") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(json=as_json, level=level, stream=stream)
    return stream


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_deep_inside() -> None:
    password = "s3cret"
    raise LookupError(f"no such channel, {len(password)}")


@FORMATS
def test_our_logger_writes_the_traceback(as_json: bool) -> None:
    stream = logged(as_json)
    try:
        fail_deep_inside()
    except LookupError:
        get_logger("ours").exception("visit_failed", channel=7)
    text = stream.getvalue()
    for part in ("visit_failed", "fail_deep_inside", "LookupError", "no such channel", "test_log.py"):
        assert part in text


@FORMATS
def test_an_error_given_as_exc_info_writes_the_traceback(as_json: bool) -> None:
    stream = logged(as_json)
    try:
        fail_deep_inside()
    except LookupError as exc:
        kept = exc
    get_logger("ours").error("task_failed", exc_info=kept)
    assert "fail_deep_inside" in stream.getvalue()


@FORMATS
def test_the_cause_is_written_too(as_json: bool) -> None:
    stream = logged(as_json)
    try:
        try:
            fail_deep_inside()
        except LookupError as exc:
            raise RuntimeError("visit broken off") from exc
    except RuntimeError:
        get_logger("ours").exception("visit_failed")
    assert "visit broken off" in stream.getvalue()
    assert "fail_deep_inside" in stream.getvalue()


@FORMATS
def test_a_logger_of_the_standard_library_writes_the_traceback(as_json: bool) -> None:
    stream = logged(as_json)
    try:
        fail_deep_inside()
    except LookupError:
        logging.getLogger("some.library").exception("could not read %s of %d", "page", 3)
    text = stream.getvalue()
    assert "could not read page of 3" in text
    assert "some.library" in text
    assert "fail_deep_inside" in text


@FORMATS
def test_local_variables_are_not_written(as_json: bool) -> None:
    """They hold passwords and sessions (LESSONS 24)."""
    stream = logged(as_json)
    try:
        fail_deep_inside()
    except LookupError:
        get_logger("ours").exception("visit_failed")
        logging.getLogger("some.library").exception("failed")
    assert "s3cret" not in stream.getvalue()


@FORMATS
def test_context_is_on_every_line(as_json: bool) -> None:
    stream = logged(as_json)
    with structlog.contextvars.bound_contextvars(trace_id="t-17"):
        get_logger("ours").info("post_saved")
        logging.getLogger("some.library").warning("slow")
    get_logger("ours").info("done")
    first, second, third = stream.getvalue().splitlines()
    assert "t-17" in first
    assert "t-17" in second
    assert "t-17" not in third


def test_json_has_one_object_per_line_with_name_level_and_aware_time() -> None:
    stream = logged(as_json=True)
    get_logger("ours").warning("gap_found", channel=7, title="Новости\nдня")
    logging.getLogger("some.library").info("hello")
    ours, theirs = entries(stream)
    assert (ours["event"], ours["channel"], ours["title"]) == ("gap_found", 7, "Новости\nдня")
    assert (ours["level"], ours["logger"]) == ("warning", "ours")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("hello", "info", "some.library")
    assert datetime.fromisoformat(ours["timestamp"]).utcoffset() == timedelta(0)
    assert "Новости" in stream.getvalue(), "readable without decoding"


@FORMATS
def test_what_is_below_the_level_is_left_out(as_json: bool) -> None:
    stream = logged(as_json, level="WARNING")
    get_logger("ours").info("unheard")
    logging.getLogger("some.library").info("unheard")
    get_logger("ours").warning("heard")
    assert "unheard" not in stream.getvalue()
    assert "heard" in stream.getvalue()


@FORMATS
def test_noisy_libraries_speak_from_warning_on(as_json: bool) -> None:
    stream = logged(as_json, level="DEBUG")
    logging.getLogger("telethon.client.updates").info("unheard")
    logging.getLogger("sqlalchemy.engine").info("unheard")
    logging.getLogger("telethon.client.updates").warning("loud")
    assert "unheard" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_console_without_a_terminal_has_no_colours() -> None:
    stream = logged(as_json=False)
    get_logger("ours").error("plain")
    assert "\x1b" not in stream.getvalue()
