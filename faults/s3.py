"""The little of S3 that a media store needs, on loopback: put, copy, get, head, delete and list."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import md5
from urllib.parse import unquote
from xml.sax.saxutils import escape, unescape

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faults.gate import HOST, Gate
from faults.models import QuietServer

DATE = "Mon, 16 Nov 2026 00:00:00 GMT"
BUCKET = "files"
KEY = re.compile(r"<Key>([^<]*)</Key>")


class Bucket:
    """Objects by their key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        methods = ["GET", "HEAD", "PUT", "DELETE"]
        self.app = Starlette(
            routes=[
                Route(f"/{BUCKET}", self._list, methods=["GET"]),
                Route(f"/{BUCKET}", self._delete, methods=["POST"]),
                Route(f"/{BUCKET}/{{key:path}}", self._object, methods=methods),
            ]
        )

    async def _list(self, request: Request) -> Response:
        prefix = request.query_params.get("prefix", "")
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-16T00:00:00.000Z</LastModified>"
            f"<ETag>{_tag(data)}</ETag><Size>{len(data)}</Size></Contents>"
            for key, data in self.objects.items()
            if key.startswith(prefix)
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        return Response(body, media_type="application/xml")

    async def _delete(self, request: Request) -> Response:
        """Several at once."""
        keys = KEY.findall((await request.body()).decode())
        for key in keys:
            self.objects.pop(unescape(key), None)
        told = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return Response(f"<DeleteResult>{told}</DeleteResult>", media_type="application/xml")

    async def _object(self, request: Request) -> Response:
        key = request.path_params["key"]
        if request.method == "PUT":
            return await self._put(request, key)
        data = self.objects.get(key)
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return Response(status_code=204)
        if data is None:
            return Response("<Error><Code>NoSuchKey</Code></Error>", 404, media_type="application/xml")
        headers = {"ETag": _tag(data), "Last-Modified": DATE, "Content-Length": str(len(data))}
        return Response(b"" if request.method == "HEAD" else data, headers=headers)

    async def _put(self, request: Request, key: str) -> Response:
        source = request.headers.get("x-amz-copy-source")
        if source is None:
            self.objects[key] = await request.body()
            return Response(headers={"ETag": _tag(self.objects[key])})
        self.objects[key] = self.objects[unquote(source).removeprefix("/").removeprefix(f"{BUCKET}/")]
        body = f"<CopyObjectResult><ETag>{_tag(self.objects[key])}</ETag></CopyObjectResult>"
        return Response(body, media_type="application/xml")


def _tag(data: bytes) -> str:
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'


@asynccontextmanager
async def object_store() -> AsyncIterator[Gate]:
    """The gate that it is reached by."""
    server = QuietServer(uvicorn.Config(Bucket().app, log_level="critical", lifespan="off", ws="none"))
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        gate = Gate(listener.getsockname()[1])
        await gate.start()
        try:
            yield gate
        finally:
            await gate.stop()
            server.should_exit = server.force_exit = True
            await serving


def settings(gate: Gate) -> dict[str, str]:
    return {
        "MEDIA_URL": f"s3://{BUCKET}/",
        "MEDIA_S3_ENDPOINT": f"http://{HOST}:{gate.port}",
        "MEDIA_S3_REGION": "here",
        "MEDIA_S3_ACCESS_KEY_ID": "faults",
        "MEDIA_S3_SECRET_ACCESS_KEY": "faults",
    }
