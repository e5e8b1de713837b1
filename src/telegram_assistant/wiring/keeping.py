"""What saves posts and their files, for the roles that do so without reading Telegram."""

from __future__ import annotations

from functools import partial

from telegram_assistant.config import Settings
from telegram_assistant.domain.media_rules import MEGABYTE, MediaRules, decide
from telegram_assistant.domain.post import MediaKind
from telegram_assistant.ingest.saver import Saver
from telegram_assistant.stores.media import MediaStore, S3Access
from telegram_assistant.wiring.runtime import Runtime


def media_rules_of(settings: Settings) -> MediaRules:
    return MediaRules(
        kinds=frozenset(MediaKind(kind.strip()) for kind in settings.media_kinds.split(",")),
        picture_limit=settings.media_max_picture_mb * MEGABYTE,
        document_limit=settings.media_max_document_mb * MEGABYTE,
    )


def open_media_store(runtime: Runtime) -> MediaStore:
    settings = runtime.settings
    secret = settings.media_s3_secret_access_key
    access = S3Access(
        endpoint=settings.media_s3_endpoint,
        region=settings.media_s3_region,
        access_key_id=settings.media_s3_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        ca_file=settings.tls_ca_file,
    )
    return MediaStore.open(settings.media_url or runtime.folder.path / "media", s3=access)


def open_saver(runtime: Runtime) -> Saver:
    rules = media_rules_of(runtime.settings)
    return Saver(
        runtime.database,
        clock=runtime.clock,
        decide_media=partial(decide, rules=rules),
        retention=runtime.settings.retention_deleted,
        keep_protected=runtime.settings.media_protected_enabled,
    )
