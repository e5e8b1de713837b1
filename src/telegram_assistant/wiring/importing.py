"""What imports an export: for the command, and for the page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from telegram_assistant.domain.media_rules import MediaDecision
from telegram_assistant.domain.post import Media
from telegram_assistant.ingest.importing import Importer, Outcome, Progress, Wish, decide_exported
from telegram_assistant.services.import_desk import ImportDesk
from telegram_assistant.source.export import Export
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.imports import ImportedChannels
from telegram_assistant.stores.postgres.media import MediaQueue
from telegram_assistant.stores.postgres.storage import Storage
from telegram_assistant.wiring.models import media_rules_of, open_media_store, open_saver
from telegram_assistant.wiring.runtime import Runtime


def open_importer(runtime: Runtime) -> Importer:
    rules = media_rules_of(runtime.settings)

    def decide_media(media: Media) -> MediaDecision:
        return decide_exported(media, rules, runtime.clock())

    return Importer(
        Channels(runtime.database),
        ImportedChannels(runtime.database),
        open_saver(runtime, decide_media),
        MediaQueue(runtime.database),
        open_media_store(runtime.settings, runtime.folder.path),
        rules=rules,
        clock=runtime.clock,
        quotas=Storage(runtime.database, default_mb=runtime.settings.storage_quota_mb),
    )


def open_import_desk(runtime: Runtime) -> ImportDesk:
    async def bring(paths: Sequence[Path], wish: Wish, progress: Progress) -> Outcome:
        importer = open_importer(runtime)
        with await asyncio.to_thread(partial(Export.open, paths, latest=importer.latest)) as export:
            return await importer.run(export, wish, progress)

    settings = runtime.settings
    folder = runtime.folder.path / "imports"
    return ImportDesk(folder, bring, most_mb=settings.import_max_mb, keep_free_mb=settings.tga_min_free_disk_mb)
