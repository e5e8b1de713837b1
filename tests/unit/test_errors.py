"""The four words of failure (STYLE 4): the tree in the docstring is the tree of the classes."""

from __future__ import annotations

import inspect
import re

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from sqlalchemy.exc import DBAPIError

from telegram_assistant import errors
from telegram_assistant.errors import AssistantError, Fatal, Reject, Retry, Skip, in_words

pytestmark = pytest.mark.unit


def test_the_tree_in_the_docstring_is_the_classes() -> None:
    tree = inspect.getdoc(errors) or ""
    root, *children = re.findall(r"^(?:[├└]── )?([A-Z]\w+)(?=\s{2}|$)", tree, re.MULTILINE)
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert {root, *children} == set(classes)
    assert classes[root] is AssistantError
    assert all(classes[name].__bases__ == (AssistantError,) for name in children)


def test_each_class_says_what_to_do() -> None:
    for kind in (AssistantError, Retry, Skip, Reject, Fatal):
        assert kind.__doc__


def test_retry_carries_its_delay() -> None:
    assert Retry("later").after is None
    assert Retry("FLOOD_WAIT", after=17.5).after == 17.5
    assert str(Retry("FLOOD_WAIT", after=17.5)) == "FLOOD_WAIT"


def test_what_redis_says_is_told_without_the_data_that_was_sent() -> None:
    error = ResponseError("command not allowed when used memory > 'maxmemory'.")
    Redis().pipeline().annotate_exception(
        error, 1, ["XADD", "stream:posts:parsed", "*", "events", '[{"text": "ours"}]']
    )
    assert "ours" in str(error)
    said = in_words(Retry(f"Redis does not take events: {in_words(error)}"))
    expected = "Redis does not take events: ResponseError: command not allowed when used memory > 'maxmemory'."
    assert said == in_words(said) == expected


def test_what_postgresql_says_is_told_without_statement_and_values() -> None:
    class Full(Exception):
        """As the driver raises it."""

    error = DBAPIError("SELECT * FROM posts WHERE text = $1", ("ours",), Full("sorry, too many clients already"))
    assert "ours" in str(error)
    assert in_words(error) == "PostgreSQL: sorry, too many clients already"


def test_an_error_without_words_is_told_by_its_name() -> None:
    assert in_words(TimeoutError()) == "TimeoutError"
    assert in_words(Retry("Telegram is away")) == "Telegram is away"
    assert in_words(OSError("\nno  space\n")) == "OSError: no space"
