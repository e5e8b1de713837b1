"""upload.getFile for photos and documents."""

from __future__ import annotations

from typing import Any

from telethon.tl import functions, types

from telegram_simulator.errors import RpcError
from telegram_simulator.model import File, Kind
from telegram_simulator.render_media import THUMBNAIL, THUMBNAIL_TYPE, photo_size_type
from telegram_simulator.rpc.call import Call, Handlers

_KINDS = {
    types.InputPhotoFileLocation: Kind.PHOTO,
    types.InputDocumentFileLocation: Kind.DOCUMENT,
}
_TYPES = {
    "image/jpeg": types.storage.FileJpeg,
    "image/png": types.storage.FilePng,
    "application/pdf": types.storage.FilePdf,
    "video/mp4": types.storage.FileMp4,
}
BIGGEST_CHUNK = 1 << 20


def _file(call: Call, location: Any) -> File:
    file = call.on.world.files.get(getattr(location, "id", 0))
    if file is None or _KINDS.get(type(location)) is not file.kind or location.access_hash != file.access_hash:
        raise RpcError(400, "LOCATION_INVALID")
    if location.file_reference != file.references[-1]:
        known = location.file_reference in file.references
        raise RpcError(400, "FILE_REFERENCE_EXPIRED" if known else "FILE_REFERENCE_INVALID")
    return file


def _size(file: File, thumb_size: str) -> bytes:
    """The bytes of the size that was asked for."""
    if file.kind is Kind.PHOTO and thumb_size == THUMBNAIL_TYPE:
        return THUMBNAIL
    if thumb_size != (photo_size_type(file) if file.kind is Kind.PHOTO else ""):
        raise RpcError(400, "LOCATION_INVALID")
    return file.data


def get_file(call: Call, request: Any) -> Any:
    if request.offset < 0 or request.offset % 1024 or request.limit % 1024:
        raise RpcError(400, "OFFSET_INVALID" if request.offset % 1024 else "LIMIT_INVALID")
    if not 0 < request.limit <= BIGGEST_CHUNK:
        raise RpcError(400, "LIMIT_INVALID")
    file = _file(call, request.location)
    data = _size(file, request.location.thumb_size)
    kind = _TYPES.get(file.mime, types.storage.FileUnknown)
    return types.upload.File(kind(), 0, data[request.offset : request.offset + request.limit])


HANDLERS: Handlers = {functions.upload.GetFileRequest: get_file}
