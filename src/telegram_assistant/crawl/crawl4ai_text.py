"""Taking a page apart with Crawl4AI: what was fetched safely is handed over as HTML, so it asks nobody for anything.

It runs in `worker` only, and is imported by name because it is an extra (`pip install telegram-assistant[crawl4ai]`).
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from telegram_assistant.crawl.extract import extract, warmed_up
from telegram_assistant.crawl.reading import Engine, Extracted, Job

_FAILED = "Error converting HTML to markdown"  # Crawl4AI returns its failures as if they were the text


def open_engine() -> Engine:
    """Text by Crawl4AI's pruning filter, as Markdown without links and pictures; title and the rest as always."""
    crawl4ai = import_module("crawl4ai")
    strategies = import_module("crawl4ai.async_crawler_strategy")
    options = {"ignore_links": True, "ignore_images": True, "ignore_emphasis": True}
    markdown = crawl4ai.DefaultMarkdownGenerator(content_filter=crawl4ai.PruningContentFilterLXML(), options=options)
    config = crawl4ai.CrawlerRunConfig(
        cache_mode=crawl4ai.CacheMode.BYPASS, markdown_generator=markdown, verbose=False, log_console=False
    )
    runner = asyncio.Runner()
    crawler = crawl4ai.AsyncWebCrawler(crawler_strategy=strategies.AsyncHTTPCrawlerStrategy(), verbose=False)
    runner.run(crawler.start())

    def text_of(html: str, _tree: Any, _url: str) -> str:
        result = runner.run(crawler.arun(f"raw:{html}", config=config))
        if not result.success:
            raise ValueError(result.error_message)
        text = str(result.markdown.fit_markdown or "")
        if text.startswith(_FAILED):
            raise ValueError(text)
        return text

    def engine(job: Job, body: bytes) -> Extracted:
        return extract(job, body, text_of)

    return warmed_up(engine)
