"""The vector index for many machines: a Qdrant server or cluster, version 1.16 or newer.

A generation is a collection of its own, named after tenant and model; the alias `t{tenant_id}_posts` names the one that
answers searches, so a switch is one step on the server. A collection's metadata says which model filled it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from hashlib import blake2b
from json import JSONDecodeError
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from telegram_assistant.errors import AssistantError, Fatal, Reject, Retry
from telegram_assistant.index.vectors import (
    INDEXES,
    TEXT_HASH,
    AnyOf,
    Between,
    Clause,
    Found,
    Is,
    Model,
    OneOf,
    Point,
    Where,
    check_sizes,
    clauses,
    no_generation,
    payload,
)
from telegram_assistant.tls import distrust, verified_tls

T = TypeVar("T")
POINTS_AT_ONCE = 200
IDS_AT_ONCE = 1000
TIMEOUT = 30  # seconds; writes wait until they can be searched


class _NotThereError(Exception):
    """There is no such collection."""


class QdrantVectors:
    """Over a client of the server; `connect` makes one."""

    def __init__(self, client: AsyncQdrantClient, where: str = "Qdrant") -> None:
        self._client = client
        self._where = where
        self._models: dict[UUID, Model] = {}  # what answered last; asked for again before it is called wrong
        self._opened: set[str] = set()  # a stage opens before each batch: nine requests the first time, then none

    @classmethod
    def connect(cls, url: str, api_key: str | None = None, *, ca_file: Path | None = None) -> QdrantVectors:
        client = AsyncQdrantClient(
            url=url, api_key=api_key, timeout=TIMEOUT, check_compatibility=False, verify=verified_tls(ca_file)
        )
        return cls(client, f"Qdrant at {url}")

    async def current(self, tenant_id: UUID) -> Model | None:
        try:
            model = await self._model(_alias(tenant_id))
        except _NotThereError:
            self._models.pop(tenant_id, None)
            return None
        self._models[tenant_id] = model
        return model

    async def open(self, tenant_id: UUID, model: Model) -> None:
        name = _collection(tenant_id, model)
        if name in self._opened:
            return
        if name not in await self._collections(tenant_id):
            await self._create(name, model)
        if await self._model(name) != model:
            raise Fatal(f"The collection {name} of {self._where} says that it is of another model than {model.name}")
        for field, kind in INDEXES.items():  # each time: the process that made the collection may have died before this
            await self._ask(
                self._client.create_payload_index(
                    name, field_name=field, field_schema=models.PayloadSchemaType(kind.value), wait=True
                )
            )
        if await self.current(tenant_id) is None:
            await self._point_alias(tenant_id, name)
        self._opened.add(name)

    async def switch(self, tenant_id: UUID, model: Model) -> None:
        name = _collection(tenant_id, model)
        known = await self._collections(tenant_id)
        if name not in known:
            raise no_generation(model)
        await self._point_alias(tenant_id, name)
        for other in known:
            if other != name:
                await self._delete(other)

    async def put(self, tenant_id: UUID, model: Model, points: Sequence[Point]) -> None:
        check_sizes(model, [point.vector for point in points])
        for start in range(0, len(points), POINTS_AT_ONCE):
            structs = [
                models.PointStruct(id=str(point.post_id), vector=list(map(float, point.vector)), payload=payload(point))
                for point in points[start : start + POINTS_AT_ONCE]
            ]
            await self._of(tenant_id, model, self._client.upsert(_collection(tenant_id, model), structs, wait=True))

    async def update(self, tenant_id: UUID, model: Model, points: Sequence[Point]) -> None:
        for start in range(0, len(points), POINTS_AT_ONCE):
            operations: list[Any] = [
                models.OverwritePayloadOperation(
                    # by filter, because a post that is not there is no error
                    overwrite_payload=models.SetPayload(payload=payload(point), filter=_only(point.post_id))
                )
                for point in points[start : start + POINTS_AT_ONCE]
            ]
            name = _collection(tenant_id, model)
            await self._of(tenant_id, model, self._client.batch_update_points(name, operations, wait=True))

    async def hashes(self, tenant_id: UUID, model: Model, post_ids: Sequence[UUID]) -> dict[UUID, str]:
        ids: list[int | str | UUID] = [str(post_id) for post_id in post_ids]
        found = self._client.retrieve(_collection(tenant_id, model), ids, with_payload=[TEXT_HASH], with_vectors=False)
        records = await self._of(tenant_id, model, found)
        return {UUID(str(record.id)): (record.payload or {})[TEXT_HASH] for record in records}

    async def remove(self, tenant_id: UUID, post_ids: Sequence[UUID]) -> None:
        if not post_ids:
            return
        ids: list[int | str | UUID] = [str(post_id) for post_id in post_ids]
        for name in await self._collections(tenant_id):
            await self._ask(self._client.delete(name, models.PointIdsList(points=ids), wait=True))

    async def search(
        self, tenant_id: UUID, vector: Sequence[float], *, limit: int, where: Where | None = None
    ) -> list[Found]:
        model = self._models.get(tenant_id)
        if model is None or model.size != len(vector):
            model = await self.current(tenant_id)
        if model is None:
            return []
        check_sizes(model, [vector])
        query = self._client.query_points(
            _alias(tenant_id),
            query=list(map(float, vector)),
            query_filter=_filter(where),
            limit=limit,
            with_payload=False,
        )
        try:
            answer = await self._ask(query)
        except _NotThereError:
            return []
        return [Found(UUID(str(point.id)), point.score) for point in answer.points]

    async def vector(self, tenant_id: UUID, post_id: UUID) -> list[float] | None:
        query = self._client.retrieve(_alias(tenant_id), [str(post_id)], with_payload=False, with_vectors=True)
        try:
            found = await self._ask(query)
        except _NotThereError:
            return None
        vector: Any = found[0].vector if found else None
        return None if vector is None else [float(number) for number in vector]

    async def ids(self, tenant_id: UUID, model: Model) -> AsyncIterator[list[UUID]]:
        offset: Any = None
        while True:
            query = self._client.scroll(
                _collection(tenant_id, model), limit=IDS_AT_ONCE, offset=offset, with_payload=False, with_vectors=False
            )
            records, offset = await self._of(tenant_id, model, query)
            if records:
                yield [UUID(str(record.id)) for record in records]
            if offset is None:
                return

    async def mark(self, tenant_id: UUID) -> str | None:
        try:
            info = await self._ask(self._client.get_collection(_alias(tenant_id)))
        except _NotThereError:
            self._opened.clear()
            return None
        return str((info.config.metadata or {}).get("mark", ""))

    async def set_mark(self, tenant_id: UUID, mark: str) -> None:
        """On every generation: a switch does not make another index of it."""
        for name in await self._collections(tenant_id):
            model = await self._model(name)
            metadata = {"model": model.name, "size": model.size, "mark": mark}
            await self._ask(self._client.update_collection(name, metadata=metadata))

    async def drop(self, tenant_id: UUID) -> None:
        await self._point_alias(tenant_id, None)
        for name in await self._collections(tenant_id):
            await self._delete(name)

    async def close(self) -> None:
        await self._client.close()

    async def _create(self, name: str, model: Model) -> None:
        vectors = models.VectorParams(size=model.size, distance=models.Distance.COSINE)
        metadata = {"model": model.name, "size": model.size}
        try:
            await self._ask(self._client.create_collection(name, vectors_config=vectors, metadata=metadata))
        except Reject as exc:
            if "already exists" not in str(exc):  # another process was quicker
                raise

    async def _delete(self, name: str) -> None:
        self._opened.discard(name)
        await self._ask(self._client.delete_collection(name))

    async def _point_alias(self, tenant_id: UUID, name: str | None) -> None:
        """To that collection, or nowhere: one step on the server."""
        steps: list[Any] = []
        if await self.current(tenant_id) is not None:
            old = models.DeleteAlias(alias_name=_alias(tenant_id))
            steps.append(models.DeleteAliasOperation(delete_alias=old))
        if name is not None:
            new = models.CreateAlias(collection_name=name, alias_name=_alias(tenant_id))
            steps.append(models.CreateAliasOperation(create_alias=new))
        if steps:
            await self._ask(self._client.update_collection_aliases(steps))
        self._models.pop(tenant_id, None)

    async def _collections(self, tenant_id: UUID) -> list[str]:
        every = await self._ask(self._client.get_collections())
        return sorted(one.name for one in every.collections if one.name.startswith(f"{_alias(tenant_id)}_"))

    async def _model(self, name: str) -> Model:
        info = await self._ask(self._client.get_collection(name))
        metadata = info.config.metadata or {}
        if "model" not in metadata:
            raise Fatal(f"{self._where} does not remember the model of {name}: version 1.16 or newer is needed")
        return Model(metadata["model"], metadata["size"])

    async def _of(self, tenant_id: UUID, model: Model, call: Awaitable[T]) -> T:
        try:
            return await self._ask(call)
        except _NotThereError as exc:
            self._opened.discard(_collection(tenant_id, model))
            raise no_generation(model) from exc

    async def _ask(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except ResourceExhaustedResponse as exc:
            raise Retry(f"{self._where} has too much to do", after=exc.retry_after_s) from exc
        except UnexpectedResponse as exc:
            raise self._translated(exc) from exc
        except (ResponseHandlingException, JSONDecodeError, OSError) as exc:  # no server, or not a Qdrant
            raise Retry(f"{self._where} is away: {distrust(exc) or exc}") from exc
        except ValueError as exc:  # how the client's own reference mode says 404 and 400
            if "not found" in str(exc):
                raise _NotThereError(str(exc)) from exc
            raise Reject(f"{self._where} refuses: {exc}") from exc

    def _translated(self, exc: UnexpectedResponse) -> AssistantError | _NotThereError:
        status, words = exc.status_code or 0, exc.content.decode(errors="replace")[:500]
        if status == 404:
            return _NotThereError(words)
        if status in (401, 403):
            return Fatal(f"{self._where} does not let us in: check its API key ({status})")
        if status in (408, 429) or status >= 500:
            return Retry(f"{self._where} cannot work now ({status}): {words}")
        if "dimension" in words:
            return Fatal(f"{self._where} holds vectors of another size: {words}")
        return Reject(f"{self._where} refuses ({status}): {words}")


def _alias(tenant_id: UUID) -> str:
    return f"t{tenant_id}_posts"


def _collection(tenant_id: UUID, model: Model) -> str:
    return f"{_alias(tenant_id)}_{blake2b(repr((model.name, model.size)).encode(), digest_size=6).hexdigest()}"


def _only(post_id: UUID) -> models.Filter:
    return models.Filter(must=[models.HasIdCondition(has_id=[str(post_id)])])


def _filter(where: Where | None) -> models.Filter | None:
    must: list[Any] = []
    must_not: list[Any] = []
    for clause in clauses(where):
        (must if clause.wanted else must_not).append(_condition(clause))
    return models.Filter(must=must, must_not=must_not) if must or must_not else None


def _condition(clause: Clause) -> models.FieldCondition | models.HasIdCondition:
    match clause:
        case AnyOf(field, values):
            return models.FieldCondition(key=field, match=models.MatchAny(any=values))
        case Is(field, value):
            return models.FieldCondition(key=field, match=models.MatchValue(value=value))
        case Between(field, since, before):
            return models.FieldCondition(key=field, range=models.DatetimeRange(gte=since, lt=before))
        case OneOf(ids):
            return models.HasIdCondition(has_id=[str(post_id) for post_id in ids])
