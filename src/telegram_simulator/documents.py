"""Small documents: text, tables and one-page PDFs of exactly the size that was planned, made when downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

MIMES = {"txt": "text/plain", "csv": "text/csv", "pdf": "application/pdf"}
SMALLEST = 1024


@dataclass(slots=True, frozen=True)
class Paper:
    """What a document will hold."""

    kind: str  # txt | csv | pdf
    title: str
    lines: tuple[str, ...]
    seed: int
    length: int

    def __call__(self) -> bytes:
        """Write it."""
        return WRITERS[self.kind](self)


def plan_paper(rng: Random, title: str, lines: tuple[str, ...], largest: int) -> Paper:
    """Choose a document's kind and size; small ones are oftener."""
    length = round(SMALLEST * (max(largest, SMALLEST) / SMALLEST) ** (rng.random() ** 2))
    return Paper(rng.choice(tuple(MIMES)), title, lines, rng.getrandbits(32), length)


def _fitted(data: bytes, length: int) -> bytes:
    """Cut to length between characters, and fill what that leaves with blanks."""
    cut = data[:length].decode("utf-8", errors="ignore").encode("utf-8")
    return cut + b" " * (length - len(cut))


def _text(paper: Paper) -> bytes:
    page = "\n".join((paper.title, "", *paper.lines, "")).encode()
    return _fitted(page * (paper.length // len(page) + 1), paper.length)


def _table(paper: Paper) -> bytes:
    rng = Random(paper.seed)
    rows = [f"date,{','.join(name.split()[0].strip(',.:') for name in paper.lines) or 'value'}".encode()]
    columns = max(1, len(paper.lines))
    total = 0
    while total < paper.length:
        day = len(rows)
        values = ",".join(str(rng.randrange(10_000)) for _ in range(columns))
        rows.append(f"{2020 + day // 336 % 10}-{day // 28 % 12 + 1:02}-{day % 28 + 1:02},{values}".encode())
        total += len(rows[-1]) + 1
    return _fitted(b"\n".join(rows), paper.length)


def _pdf(paper: Paper) -> bytes:
    """A PDF by hand: five objects and their table; a comment in front fills it to its length.

    The built-in fonts of PDF know no Cyrillic, so the words stand in the title, which may be UTF-16.
    """
    latin = [line for line in paper.lines if line.isascii()] or [f"Document {paper.seed}"]
    shown = b"".join(
        b"(%s) Tj T*\n" % line[:90].translate({40: "[", 41: "]", 92: "/"}).encode("ascii") for line in latin
    )
    stream = b"BT /F1 14 Tf 60 760 Td 20 TL\n" + shown + b"ET"
    title = b"\xfe\xff" + paper.title[:60].encode("utf-16-be")
    fonts = b"<< /Font << /F1 5 0 R >> >>"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources %s >>" % fonts,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title <%s> >>" % title.hex().encode(),
    )
    empty = _assemble(objects, 0)
    return _assemble(objects, max(0, paper.length - len(empty)))


def _assemble(objects: tuple[bytes, ...], filling: int) -> bytes:
    out = bytearray(b"%PDF-1.4\n%" + b" " * filling + b"\n")
    table = [b"0000000000 65535 f \n"]
    for number, body in enumerate(objects, start=1):
        table.append(b"%010d 00000 n \n" % len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n%s" % (len(table), b"".join(table))
    # The position has ten digits like those in the table, so that filling does not change the length of the rest.
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n" % (len(table), len(objects))
    out += b"startxref\n%010d\n%%%%EOF\n" % start
    return bytes(out)


WRITERS = {"txt": _text, "csv": _table, "pdf": _pdf}
