"""Conversations by id: created, read, changed and deleted, with their items."""

from __future__ import annotations

import os
from typing import TypeVar

from dragoman.core.model import Failure, Wire
from dragoman.gateway.conversations.conversations import ConversationTable
from dragoman.gateway.conversations.store import ChainTooLarge
from dragoman.gateway.handlers.request_reader import receive
from dragoman.gateway.large_bodies import hold, read_wire
from dragoman.gateway.request import GatewayRequest
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.serving.conversations import ConversationCodec, ConversationError

T = TypeVar("T")
ACTIONS = tuple(
    f"conversation.{step}"
    for step in ("create", "retrieve", "update", "delete", "items", "add", "item", "remove")
)


class ConversationsHandler:
    def __init__(self, table: ConversationTable, max_body: int) -> None:
        self._table, self._max_body = table, max_body

    async def answer(self, request: GatewayRequest) -> None:
        body = await receive(request, self._max_body)
        try:
            answer = await self._answer(request, body)
        except ChainTooLarge as error:
            raise ConversationError(Failure("bad_request", str(error), 400)) from None
        await request.writer.json(200, answer)

    async def _answer(self, request: GatewayRequest, data: bytes) -> Wire:
        codec, table = request.protocol_server.conversations, self._table
        assert codec, "only protocols with conversations have these routes"
        owner, id, item = request.owner, request.route.id, request.route.item

        def reserve(size: int) -> None:
            hold(request.incoming, BODY_WEIGHT * size)

        body = await read_wire(request.incoming, data, request.client.name) if data else {}
        match request.route.action.removeprefix("conversation."):
            case "create":
                metadata, items = codec.decode_metadata(body, False), codec.decode_items(body, False)
                id = codec.id_prefix + os.urandom(24).hex()
                created = await table.create(owner, id, metadata, codec.with_ids(items))
                return codec.encode(created.id, created.made, created.metadata)
            case "update":
                found = await table.update(owner, id, codec.decode_metadata(body, True))
            case "delete":
                if not await table.delete(owner, id):
                    raise ConversationError(codec.unknown(id))
                return codec.encode_deleted(id)
            case "items":
                listed = _demand(codec, id, await table.items(owner, id, reserve))
                return codec.encode_page(listed, request.query)
            case "add":
                items = codec.with_ids(codec.decode_items(body, True))
                if not await table.add(owner, id, items):
                    raise ConversationError(codec.unknown(id))
                return codec.encode_added(items)
            case "item":
                _demand(codec, id, await table.get(owner, id))
                found_item = await table.item(owner, id, item)
                if found_item is None:
                    raise ConversationError(codec.unknown_item(item))
                return found_item
            case "remove":
                _demand(codec, id, await table.get(owner, id))
                if not await table.remove(owner, id, item):
                    raise ConversationError(codec.unknown_item(item))
                found = await table.get(owner, id)
            case _:
                found = await table.get(owner, id)
        known = _demand(codec, id, found)
        return codec.encode(known.id, known.made, known.metadata)


def _demand(codec: ConversationCodec, id: str, found: T | None) -> T:
    if found is None:
        raise ConversationError(codec.unknown(id))
    return found
