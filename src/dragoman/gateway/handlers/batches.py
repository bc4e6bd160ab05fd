"""Batches and the files that they read and write: created, listed, retrieved, cancelled, deleted."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator

from dragoman.core.errors import WireError
from dragoman.core.model import Failure, Wire
from dragoman.framing.multipart import FormError, FormPart, read_form
from dragoman.gateway.config import Config
from dragoman.gateway.handlers.request_reader import receive
from dragoman.gateway.jobs.batch_table import StoredBatch
from dragoman.gateway.jobs.batches import Batches
from dragoman.gateway.large_bodies import MOST_VALUES, hold, read_wire, run_for
from dragoman.gateway.request import GatewayRequest
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.serving.conversations import ConversationError
from dragoman.serving.jobs import DAY, BatchCodec, BatchState, FileCodec, StoredFile

_FILE_LIFE = 30 * DAY  # of an upload, unless it says otherwise
_MOST_PARTS = 16  # of an upload: purpose, the file, and when it expires
_LONGEST_FIELD = 8 * 1024
_LONGEST_TYPE = 127  # of either half of a media type (RFC 6838); the whole is longer nowhere
_JSON_LINES = "application/x-jsonl"
_MOST_VALUES = 10 * MOST_VALUES  # of all requests of a batch that stand in its body


class BatchesHandler:
    def __init__(self, config: Config, batches: Batches) -> None:
        self._config, self._batches = config, batches
        self._table = batches.table

    # Batches

    async def answer(self, request: GatewayRequest) -> None:
        codec = request.protocol_server.batches
        assert codec, "only protocols with batches have these routes"
        match request.route.variant:
            case "create":
                await self._create(request, codec)
            case "list":
                await self._turn(request)
                page = codec.decode_page(request.query)
                batches, more = await self._table.page(request.owner, request.client.name, page)
                data = [await self._encode(request, codec, batch) for batch in batches]
                await request.writer.json(200, codec.encode_page(data, more))
            case action:
                await self._turn(request)
                await self._answer_one(request, codec, action)

    async def _create(self, request: GatewayRequest, codec: BatchCodec) -> None:
        data = await receive(request, self._config.max_body)
        body = await read_wire(request.incoming, data, request.client.name, _MOST_VALUES)
        asked = codec.decode_create(body)
        content = b""
        if asked.file:
            if (file := await self._table.file(request.owner, asked.file)) is None:
                raise ConversationError(_files(request).unknown(asked.file))
            if file.batch:
                raise WireError(
                    request.client.name, "input_file_id", "the results of a batch cannot be its input"
                )
            hold(request.incoming, BODY_WEIGHT * file.size)
            content = await self._table.content(request.owner, file.id)
        lines, errors = await run_for(len(data) + len(content), codec.read_lines, body, content)
        batch = await self._batches.create(request, codec, asked, lines, errors)
        encoded = await self._encode(request, codec, batch)
        await request.writer.json(200, codec.encode_created(encoded))

    async def _answer_one(self, request: GatewayRequest, codec: BatchCodec, action: str) -> None:
        owner, id = request.owner, request.route.id
        batch = await self._table.get(owner, id)
        if batch is None or batch.protocol != request.client.name:
            raise ConversationError(codec.unknown(id))
        if batch.ended is None:
            if action == "cancel":
                await self._table.cancel(batch)
            await self._batches.end(batch)  # nobody may have noticed
            batch = await self._table.get(owner, id) or batch
        match action:
            case "results":
                if batch.ended is None:
                    raise ConversationError(_batch_failure("has no results before it has ended"))
                await self._send(request, self._batches.results(batch))
            case "delete":
                if batch.ended is None:
                    raise ConversationError(_batch_failure("cannot be deleted before it has ended"))
                await self._table.delete(owner, id)
                await request.writer.json(200, codec.encode_deleted(id))
            case _:
                await request.writer.json(200, await self._encode(request, codec, batch))

    async def _encode(self, request: GatewayRequest, codec: BatchCodec, batch: StoredBatch) -> Wire:
        counts = await self._table.counts(batch.owner, batch.id)
        scheme = request.headers.get("x-forwarded-proto") or ("https" if self._config.tls_cert else "http")
        state = BatchState(
            batch.id,
            batch.read_settings(),
            batch.total,
            batch.created,
            batch.deadline,
            batch.cancelled,
            batch.ended,
            counts,
            f"{scheme}://{request.headers.get('host', '')}",
        )
        return codec.encode_batch(state)

    # Files

    async def answer_file(self, request: GatewayRequest) -> None:
        codec, owner, id = _files(request), request.owner, request.route.id
        if request.route.variant == "create":
            await self._upload(request, codec)
            return
        await self._turn(request)
        if request.route.variant == "list":
            files, more = await self._table.files(owner, codec.decode_page(request.query), codec.protocol)
            await request.writer.json(
                200, codec.encode_page([codec.encode_file(each) for each in files], more)
            )
            return
        file = await self._table.file(owner, id, codec.protocol)
        if file is None:
            raise ConversationError(codec.unknown(id))
        match request.route.variant:
            case "content" if file.batch:
                if (batch := await self._table.get(owner, file.batch)) is None:
                    raise ConversationError(codec.unknown(id))
                batch_codec = request.protocol_server.batches
                answers = bool(
                    batch_codec and batch_codec.output_id and id == batch_codec.output_id(batch.id, True)
                )
                await self._send(request, self._batches.results(batch, answers))
            case "content":
                hold(request.incoming, file.size)
                content = await self._table.content(owner, id)
                await request.writer.whole(200, content, kind=b"application/octet-stream")
            case "delete":
                await self._table.delete_file(owner, id)
                await request.writer.json(200, codec.encode_deleted(id))
            case _:
                await request.writer.json(200, codec.encode_file(file))

    async def _upload(self, request: GatewayRequest, codec: FileCodec) -> None:
        data = await receive(request, self._config.max_body)
        form = await run_for(len(data), _form, request, data)
        if (upload := form.pop("file", None)) is None:
            raise WireError(request.client.name, "file", "expected a file in the form")
        if any(part.end - part.start > _LONGEST_FIELD for part in form.values()):
            raise WireError(request.client.name, "body", "the form has a field that is longer than 8 kB")
        purpose, life = codec.decode_upload(
            {name: data[part.start : part.end].decode("utf-8", "replace") for name, part in form.items()}
        )
        content, now = data[upload.start : upload.end], time.time()
        del data  # twice in memory is enough
        name = "".join(letter for letter in upload.filename if letter.isprintable())[:255]
        id = codec.id_prefix + os.urandom(16).hex()
        kind = (
            upload.content_type if upload.content_type.isascii() and upload.content_type.isprintable() else ""
        )
        file = StoredFile(
            id,
            name or id,
            purpose,
            "",
            len(content),
            now,
            now + (life or _FILE_LIFE),
            codec.protocol,
            kind[:_LONGEST_TYPE],
        )
        await self._table.add_file(request.owner, file, content, self._batches.space)
        await request.writer.json(200, codec.encode_file(file))

    # Both

    async def _turn(self, request: GatewayRequest) -> None:
        if request.admission:
            await request.admission.acquire()

    async def _send(self, request: GatewayRequest, pieces: AsyncIterator[bytes]) -> None:
        await request.writer.begin(_JSON_LINES)
        async for piece in pieces:
            if piece:
                await request.writer.piece(piece)
        await request.writer.end()


def _files(request: GatewayRequest) -> FileCodec:
    codec = request.protocol_server.files
    assert codec, "only protocols with files have these routes"
    return codec


def _batch_failure(problem: str) -> Failure:
    return Failure("bad_request", f"a batch {problem}", 400)


def _form(request: GatewayRequest, data: bytes) -> dict[str, FormPart]:
    form: dict[str, FormPart] = {}
    try:
        parts = read_form(data, request.headers.get("content-type", ""), _MOST_PARTS)
    except FormError as error:
        raise WireError(request.client.name, "body", str(error)) from None
    for part in parts:
        if part.name in form:
            raise WireError(request.client.name, "body", f"the form has two parts named {part.name[:80]!r}")
        form[part.name] = part
    return form
