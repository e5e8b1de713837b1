"""Charts are well-formed, escape what they show, and keep inside their frame."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from telegram_assistant.http.web.charts import heat_map, line_chart, sparkline

pytestmark = pytest.mark.unit

START = datetime(2026, 11, 1, tzinfo=UTC)
HOSTILE = '"><script>alert(1)</script>'


def numbers(points: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (pair.partition(",") for pair in points.split())]


@pytest.mark.parametrize("values", [[], [1.0], [0, 0, 0], [1, 5, 2, 8], [1e9, 0, 3]])
def test_a_sparkline_stays_in_its_frame(values: list[float]) -> None:
    root = ET.fromstring(sparkline(values, label=HOSTILE))  # noqa: S314 - our own
    for line in root.iter("polyline"):
        found = numbers(line.get("points", ""))
        assert len(found) == len(values)
        assert all(0 <= x <= 120 and 0 <= y <= 28 for x, y in found)


def test_a_line_chart_shows_every_series() -> None:
    views = [(START + timedelta(hours=hour), float(hour * 100)) for hour in range(10)]
    forwards = [(START + timedelta(hours=hour), float(hour)) for hour in range(10)]
    root = ET.fromstring(line_chart([(HOSTILE, views), ("Forwards", forwards)], label="x"))  # noqa: S314 - our own
    assert [item.text for item in root.iter("li")] == [HOSTILE, "Forwards"]
    lines = [numbers(line.get("points", "")) for line in root.iter("polyline")]
    assert [len(line) for line in lines] == [10, 10]
    assert all(0 <= x <= 640 and 0 <= y <= 180 for line in lines for x, y in line)
    assert lines[0][-1][1] < lines[0][0][1], "more is higher"


def test_charts_of_one_moment_and_of_nothing() -> None:
    assert line_chart([("Views", [(START, 5.0)])])
    assert line_chart([("Views", [])]) == ""
    assert line_chart([("Views", [(START, 0.0)])])


def test_a_heat_map_is_strongest_where_there_is_most() -> None:
    rows = [("Mon", [0.0, 2.0]), (HOSTILE, [4.0, 1.0])]
    root = ET.fromstring(heat_map(rows, columns=["0", "1"], label="x"))  # noqa: S314 - our own
    shades = [float(cell.get("fill-opacity", "")) for cell in root.iter("rect")]
    assert shades.index(max(shades)) == 2
    assert min(shades) > 0, "an empty cell is still a cell"
