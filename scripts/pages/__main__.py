"""Writes every file that is made from code; a test compares them."""

from __future__ import annotations

import asyncio
import json
import sys

from scripts.generated import ROOT, write_files
from scripts.pages.asyncapi import document
from scripts.pages.benchmarks import contents as benchmarks
from scripts.pages.configuration import env_example, page
from scripts.pages.data_flow import picture
from scripts.pages.schema import SCHEMA, schema_page


def contents() -> dict[str, str]:
    """By path from the root of the repository."""
    return {
        "env.example": env_example(),
        "docs/reference/configuration.md": page(),
        "docs/reference/asyncapi.json": json.dumps(document(), indent=2, ensure_ascii=False) + "\n",
        "docs/images/data-flow.svg": picture(),
        **benchmarks(ROOT),
    }


if __name__ == "__main__":
    made = contents()
    if len(sys.argv) > 1:  # the address of a database with the newest schema
        made[SCHEMA] = asyncio.run(schema_page(sys.argv[1]))
    write_files(made)
