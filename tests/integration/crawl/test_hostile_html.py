"""Pages made to break their reader: each is read or skipped, and the next page is read as if nothing had happened."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from telegram_assistant.crawl.pool import Pool, worker_command
from telegram_assistant.crawl.worker import Extracted
from telegram_assistant.errors import Skip

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

P = "<p>Обычный абзац, где достаточно слов, чтобы читатель заметил этот текст и прочитал.</p>"
MEGABYTE = 2**20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def pool() -> AsyncIterator[Pool]:
    made = Pool(worker_command("trafilatura"), seconds=30)
    yield made
    await made.close()


async def read(pool: Pool, html: str) -> Extracted:
    return await pool.extract(html.encode(), url="http://a.test/x", kind="text/html", charset="utf-8")


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + P,
        "<b><i>" * 50_000 + P,
        "<table><tr><td>" * 5_000 + P,
        "<ul><li>" * 20_000 + P,
        f"<div data-x='{'a' * MEGABYTE}'>{P}</div>",
        "<!--" + "-" * MEGABYTE,
        "<script>" + "x" * MEGABYTE,
        "&amp;" * 100_000,
        "<" * 200_000,
        "<![CDATA[" * 100_000,
        "<p\0>" * 1_000,
        "<script type='application/ld+json'>" + "[" * 100_000 + "</script>" + P,
        "<script type='application/ld+json'>" + '{"a":' * 50_000 + "</script>" + P,
        "<p>" + "2024-01-01 " * 50_000 + "</p>",
        f"<title>{'ж' * 200_000}</title>{P}",
        "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]>" + P.replace("абзац", "&b;"),
        "",
        "\0",
        "<frameset><frame src=x></frameset>",
    ],
    ids=lambda html: html[:20].replace("\0", "0"),
)
async def test_odd_pages_do_no_harm(pool: Pool, html: str) -> None:
    try:
        found = await read(pool, f"<html><head></head><body>{html}</body></html>")
    except Skip:
        pass
    else:
        assert len(found.text) <= 100_000
        assert len(found.title) <= 300
    assert "Обычный абзац" in (await read(pool, f"<html><body>{P * 3}</body></html>")).text


async def test_a_page_that_is_truly_too_slow_is_killed() -> None:
    """Minutes of work for trafilatura: a third of a million line breaks."""
    pool = Pool(worker_command("trafilatura"), seconds=3)
    try:
        await read(pool, f"<html><body>{P}</body></html>")
        [worker] = pool.workers
        pid = worker.pid
        assert pid is not None
        with pytest.raises(Skip, match="could not be read within 3 s"):
            await read(pool, "<html><body>" + "<br>" * 300_000 + "</body></html>")
        assert not psutil.pid_exists(pid)
        assert "Обычный абзац" in (await read(pool, f"<html><body>{P * 3}</body></html>")).text
    finally:
        await pool.close()
