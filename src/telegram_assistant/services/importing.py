"""Importing an export: what people say of it, for the command and for the page."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.channel import parse_ref
from telegram_assistant.errors import Reject
from telegram_assistant.ingest.importing import Wish
from telegram_assistant.services.import_desk import ImportDesk, Upload
from telegram_assistant.services.problems import conflict, forbidden
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.channels import Channels


async def exported_channel(channels: Channels, reference: str) -> int | None:
    """The id of the channel that an export is said to be of; None: nothing is said. Raises Reject."""
    if not reference.strip():
        return None
    try:
        ref = parse_ref(reference)
    except ValueError as exc:
        raise Reject(str(exc)) from exc
    if ref.channel_id is not None:
        return ref.channel_id
    found = await channels.by_username(ref.username or "")
    if found is None:
        raise Reject(f"{reference} is not watched here, so that its id is not known: give its id, like -1001234567890")
    return found.id


def exported_zone(name: str) -> ZoneInfo | None:
    """Raises Reject for what is no zone."""
    if not name.strip():
        return None
    try:
        return ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError) as exc:
        raise Reject(f"{name!r} is no time zone; one is called like Europe/Moscow or UTC") from exc


class ImportActions:
    """For an admin. What all tenants share is for the operator to write."""

    def __init__(self, services: Services, caller: Caller) -> None:
        if not caller.is_admin:
            raise forbidden("Only an admin may import an export: ask one of yours")
        if services.imports is None:
            raise conflict("Exports are taken where the pages are served: open them there")
        self._services = services
        self._caller = caller
        self.desk: ImportDesk = services.imports

    @property
    def upload(self) -> Upload | None:
        return self.desk.of(self._caller.user_id)

    async def begin(self, token: str, *, channel: str, zone: str, private: bool, only_look: bool) -> Upload:
        """Raises Reject with what is wrong with what was typed, NotTaken where nothing is there to import."""
        wish = Wish(
            tenant_id=self._caller.tenant_id,
            user_id=self._caller.user_id,
            channel_id=await exported_channel(Channels(self._services.database), channel),
            zone=exported_zone(zone or self._services.settings.import_zone or ""),
            private=private,
            only_look=only_look,
            shared=self._caller.is_operator,
        )
        upload = self.desk.begin(self._caller.user_id, token, wish)
        names = ", ".join(path.name for path in upload.files()[:3])
        await self._services.access.record(self._caller, "export_imported", names, {"only_look": only_look})
        return upload
