"""A door in front of a server: open, silent (it takes connections and answers nothing), or shut."""

from __future__ import annotations

import asyncio
from contextlib import suppress

HOST = "127.0.0.1"
PIECE = 2**16


class Gate:
    """Passes bytes to a server on loopback and back. Its port stays the same, whatever becomes of the server."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._links: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Shut: who is connected is cut off, who comes is refused."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def silence(self) -> None:
        """Connections stay and new ones are taken, but nothing passes any more."""
        self._open.clear()

    async def open(self) -> None:
        """As if nothing had been. Connections of the silent time are cut, as a server that was started anew does."""
        if not self._open.is_set():
            await self.stop()
            self._open.set()
        if self._server is None:
            await self.start()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._links.add(task)
            task.add_done_callback(self._links.discard)
        back: asyncio.StreamWriter | None = None
        try:
            await self._open.wait()
            answers, back = await asyncio.open_connection(HOST, self._target)
            await asyncio.gather(self._pass(reader, back), self._pass(answers, writer))
        except OSError:
            pass  # one of the two went away
        except asyncio.CancelledError:
            pass  # shut: the stream server would tell of it on stderr
        finally:
            for side in (writer, back):
                if side is not None:
                    with suppress(OSError, RuntimeError):
                        side.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(PIECE):
                await self._open.wait()
                writer.write(piece)
                await writer.drain()
        finally:
            with suppress(OSError, RuntimeError):
                writer.close()
