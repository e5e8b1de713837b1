"""The four words of failure (STYLE 4): the tree in the docstring is the tree of the classes."""

from __future__ import annotations

import inspect
import re

import pytest

from telegram_assistant import errors
from telegram_assistant.errors import AssistantError, Fatal, Reject, Retry, Skip

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
