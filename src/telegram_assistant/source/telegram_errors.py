"""What can go wrong beneath us, as SourceError: said once, here, for every request."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from telethon import errors

from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError, TakeoutDelayed, TakeoutOver

UNNAMED_FLOOD_SECONDS = 60.0  # when Telegram says "flood" and no time

_LOG_IN = "log in again with `tga login`"

# The first class that fits counts, so a kind of error stands before the class that it belongs to.
_RPC_FAILURES: tuple[tuple[tuple[type[Exception], ...], Failure, str], ...] = (
    ((errors.FrozenMethodInvalidError,), Failure.ACCOUNT, "Telegram froze this account"),
    ((errors.FloodError,), Failure.FLOOD, "Telegram asks to wait"),
    (
        (errors.UserDeactivatedBanError, errors.UserDeactivatedError, errors.PhoneNumberBannedError),
        Failure.ACCOUNT,
        "this account was deleted or banned by Telegram",
    ),
    (
        (errors.AuthKeyDuplicatedError,),
        Failure.ACCOUNT,
        f"this session was used from two places at once, so Telegram ended it: {_LOG_IN}",
    ),
    ((errors.UnauthorizedError,), Failure.ACCOUNT, f"this account's session is not valid any more: {_LOG_IN}"),
    ((errors.UserMigrateError,), Failure.ACCOUNT, f"this account moved to another data centre: {_LOG_IN}"),
    (
        (errors.FileReferenceExpiredError, errors.FileReferenceInvalidError, errors.FileReferenceEmptyError),
        Failure.REFERENCE_EXPIRED,
        "the file's reference expired",
    ),
    ((errors.FilerefUpgradeNeededError,), Failure.REFERENCE_EXPIRED, "the file's reference is of an old kind"),
    (
        (errors.ChannelPrivateError, errors.ChatAdminRequiredError, errors.UserBannedInChannelError),
        Failure.CHANNEL_PRIVATE,
        "the channel is private, or this account was banned from it",
    ),
    ((errors.ForbiddenError,), Failure.CHANNEL_PRIVATE, "this account may not read the channel"),
    ((errors.UsernameNotOccupiedError,), Failure.GONE, "no channel has this name"),
    ((errors.UsernameInvalidError,), Failure.GONE, "no channel can have this name"),
    (
        (errors.ChannelInvalidError, errors.PeerIdInvalidError),
        Failure.GONE,
        "Telegram does not know this channel by our access hash: stale, of another account, or the channel is gone",
    ),
    (
        (errors.InviteHashExpiredError, errors.InviteHashInvalidError, errors.InviteHashEmptyError),
        Failure.GONE,
        "this invite link expired or never was",
    ),
    (
        (errors.MsgWaitFailedError, errors.ConnectionNotInitedError),
        Failure.TRANSIENT,
        "Telegram lost track of the connection",
    ),
)
_CONNECTION = (
    OSError,  # TimeoutError and ConnectionError among them
    EOFError,
    errors.InvalidBufferError,
    errors.InvalidChecksumError,
    errors.SecurityError,
    errors.BadMessageError,
    errors.ReadCancelledError,
)
# An answer that could not be parsed shows as any of these.
_GARBLED = (errors.TypeNotFoundError, struct.error, BufferError, ValueError, LookupError, ArithmeticError)
_BUGS = (TypeError, AttributeError, AssertionError)
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class UnreadableAnswer(SourceError):
    """The library cannot parse an answer: something in it is newer than the library."""


class NoSuchMessage(SourceError):
    """The message that a request is about does not exist, or has no comments."""


class FileElsewhere(SourceError):
    """The file is in another data centre: ask that one."""

    def __init__(self, message: str, dc_id: int) -> None:
        super().__init__(Failure.FATAL, message)
        self.dc_id = dc_id


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what the library raises into SourceError. `doing` begins its text: a method, or what a person did."""
    try:
        yield
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # We were not cancelled: the library cancels what waits when its connection is closed.
        raise SourceError(Failure.TRANSIENT, f"{doing}: the connection was closed") from exc
    except SourceError:
        raise
    except (errors.RPCError, errors.AuthKeyNotFound, *_CONNECTION, *_GARBLED, *_BUGS) as exc:
        raise source_error(exc, doing) from exc


def source_error(exc: Exception, doing: str) -> SourceError:
    """The same error in our terms."""
    if isinstance(exc, errors.RPCError):
        return _from_rpc(exc, doing)
    if isinstance(exc, errors.AuthKeyNotFound):
        return SourceError(Failure.ACCOUNT, f"{doing}: Telegram does not know this session: {_LOG_IN}")
    if isinstance(exc, TimeoutError):
        return SourceError(Failure.TRANSIENT, f"{doing}: no answer in time")
    if isinstance(exc, _CONNECTION):
        return SourceError(Failure.TRANSIENT, f"{doing}: the connection failed ({type(exc).__name__}: {exc})")
    if isinstance(exc, _GARBLED):
        return _from_garbled(exc, doing)
    return SourceError(Failure.FATAL, f"{doing} failed: {type(exc).__name__}: {exc}")


def rpc_code(exc: Exception) -> str:
    """Telegram's own name of an error, such as CHANNEL_PRIVATE."""
    if type(exc) in errors.base_errors.values() or type(exc) is errors.RPCError:
        return str(getattr(exc, "message", exc))  # one that the library has no class for
    return _WORD_START.sub("_", type(exc).__name__.removesuffix("Error")).upper()


def _from_rpc(exc: errors.RPCError, doing: str) -> SourceError:
    code = rpc_code(exc)
    if isinstance(exc, errors.FileMigrateError):
        return FileElsewhere(f"{doing}: the file is in data centre {exc.new_dc}", exc.new_dc)
    if isinstance(exc, errors.MsgIdInvalidError):
        return NoSuchMessage(Failure.GONE, f"{doing}: there is no such message, or none may comment on it ({code})")
    if isinstance(exc, errors.TakeoutInitDelayError):
        return TakeoutDelayed(f"{doing}: Telegram begins it in {exc.seconds} s ({code})", float(exc.seconds))
    if isinstance(exc, errors.TakeoutInvalidError | errors.TakeoutRequiredError):
        return TakeoutOver(f"{doing}: this takeout was ended ({code})")
    failure, text = _failure(exc, code)
    if failure is Failure.FLOOD:
        seconds = float(getattr(exc, "seconds", UNNAMED_FLOOD_SECONDS))
        return SourceError(failure, f"{doing}: {text} {seconds:g} s ({code})", flood_seconds=seconds)
    return SourceError(failure, f"{doing}: {text} ({code})")


def _failure(exc: errors.RPCError, code: str) -> tuple[Failure, str]:
    for classes, failure, text in _RPC_FAILURES:
        if isinstance(exc, classes):
            return failure, text
    if code.startswith("FILE_REFERENCE"):
        return Failure.REFERENCE_EXPIRED, "the file's reference expired"
    if abs(exc.code or 0) >= 500:
        return Failure.TRANSIENT, "Telegram has trouble inside"
    return Failure.FATAL, "Telegram refused it"


def _from_garbled(exc: Exception, doing: str) -> SourceError:
    what = type(exc).__name__
    if isinstance(exc, errors.TypeNotFoundError):
        what = f"constructor {exc.invalid_constructor_id:08x} is unknown"
        # It carries the rest of the answer, which would fill the log with other people's messages.
        exc.args, exc.remaining = (what,), b""
    return UnreadableAnswer(
        Failure.FATAL, f"{doing}: an answer of Telegram cannot be understood ({what}); a newer Telethon may help"
    )
