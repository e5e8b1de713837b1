"""Pictures and documents: they open, have the promised size, and are the same every time."""

from __future__ import annotations

import csv
import re
from io import BytesIO, StringIO
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from telegram_simulator.documents import MIMES, Paper, plan_paper
from telegram_simulator.glyphs import alphabet, width_of, wrapped, write
from telegram_simulator.pictures import STYLES, padded, plan_picture

pytestmark = pytest.mark.unit

RUSSIAN = ("Ветер до 21 метра в секунду: последствия непогоды", "Подробности уточняются.")
ENGLISH = ("Storm leaves 33 villages without power", "Details are being checked.")


def seeded(number: int) -> Random:
    return Random(number)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("lines", [RUSSIAN, ENGLISH], ids=["ru", "en"])
def test_a_photo_opens_and_has_the_size_it_promised(style: str, lines: tuple[str, ...]) -> None:
    for seed in range(4):
        picture = plan_picture(seeded(seed), lines, style)
        data = picture()
        assert len(data) == picture.length
        image = Image.open(BytesIO(data))
        image.load()
        assert (image.format, image.size) == ("JPEG", (picture.width, picture.height))
        assert len(image.getcolors(1 << 20) or ()) > 20  # something is drawn on it
        assert plan_picture(seeded(seed), lines, style)() == data


def test_photos_with_other_words_differ() -> None:
    assert plan_picture(seeded(1), RUSSIAN, "card")() != plan_picture(seeded(1), ENGLISH, "card")()


@pytest.mark.parametrize("extra", [4, 5, 1000, 65_535, 65_536, 65_538, 200_000])
def test_a_jpeg_can_be_filled_to_any_length(extra: int) -> None:
    out = BytesIO()
    Image.new("RGB", (40, 30), (200, 10, 10)).save(out, "JPEG")
    filled = padded(out.getvalue(), len(out.getvalue()) + extra)
    assert len(filled) == len(out.getvalue()) + extra
    image = Image.open(BytesIO(filled))
    image.load()
    assert image.size == (40, 30)


def test_every_russian_letter_has_its_own_shape() -> None:
    letters = "".join(chr(code) for code in range(ord("\N{CYRILLIC CAPITAL LETTER A}"), ord("я") + 1))
    shapes = set()
    for letter in letters:
        image = Image.new("RGB", (60, 60))
        write(image, (5, 5), letter, 40, (255, 255, 255))
        shapes.add(image.tobytes())
    assert len(shapes) == len(letters) == 64


def test_no_letter_falls_back_to_the_empty_box_of_the_font() -> None:
    drawn = alphabet()
    letters = (chr(code) for code in range(ord("\N{CYRILLIC CAPITAL LETTER A}"), ord("я") + 1))
    assert all(drawn.draws(x) or x.translate(drawn.lookalike).isascii() for x in (*letters, *"ёЁ№—"))


def test_lines_fit_their_width() -> None:
    lines = wrapped(" ".join(RUSSIAN * 3), 30, 400)
    assert len(lines) > 3
    assert all(width_of(line, 30) <= 400 for line in lines)
    assert " ".join(lines) == " ".join(RUSSIAN * 3)


@given(st.sampled_from(sorted(MIMES)), st.integers(1024, 20_000), st.integers(0, 2**32 - 1))
def test_a_document_has_exactly_the_planned_size(kind: str, length: int, seed: int) -> None:
    paper = Paper(kind, "Отчёт за март", ("Первая строка.", "A second line (with brackets)."), seed, length)
    assert len(paper()) == length
    assert paper() == paper()


def test_documents_are_between_a_kilobyte_and_the_largest() -> None:
    sizes = [plan_paper(seeded(seed), "t", ("a",), 50_000).length for seed in range(300)]
    assert min(sizes) >= 1024
    assert 30_000 < max(sizes) <= 50_000
    assert plan_paper(seeded(1), "t", ("a",), 10).length == 1024


def test_a_pdf_has_its_header_and_a_true_table_of_objects() -> None:
    data = Paper("pdf", "Отчёт", ("Latin (line)", "Строка"), 7, 5000)()
    assert data.startswith(b"%PDF-")
    assert data.endswith(b"%%EOF\n")
    start = int(data.split(b"startxref\n")[1].split()[0])
    assert data[start:].startswith(b"xref\n0 7\n")
    offsets = [int(found) for found in re.findall(rb"(\d{10}) 00000 n", data[start:])]
    assert len(offsets) == 6
    for number, offset in enumerate(offsets, start=1):
        assert data[offset:].startswith(b"%d 0 obj" % number)
    assert "Отчёт".encode("utf-16-be").hex().encode() in data


def test_a_table_is_csv_and_a_text_is_text() -> None:
    rows = list(csv.reader(StringIO(Paper("csv", "t", ("One two", "Three"), 3, 4000)().decode().rstrip())))
    assert rows[0] == ["date", "One", "Three"]
    assert {len(row) for row in rows[:-1]} == {3}
    assert Paper("txt", "Заголовок", ("Жёлтая",), 3, 2000)().decode().split("\n")[:3] == ["Заголовок", "", "Жёлтая"]
