"""The error that a handler answers with."""

from __future__ import annotations


class RpcError(Exception):
    """An RPC error as Telegram words it, such as 400 CHANNEL_PRIVATE."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message
