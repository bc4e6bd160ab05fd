"""What a reply cannot say to its client is reported once, and the same whole and streamed."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.loss_codes import CODES
from dragoman.core.model import Wire

CITED_BY_ANTHROPIC = {
    "type": "web_search_result_location",
    "url": "https://a.test",
    "title": "A",
    "cited_text": "It rains.",
    "encrypted_index": "eA==",
}
FOUND_BY_ANTHROPIC = {
    "type": "search_result_location",
    "source": "https://a.test",
    "title": "A",
    "cited_text": "",
    "search_result_index": 0,
    "start_block_index": 1,
    "end_block_index": 2,
}
ANNOTATION = {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2}
GROUNDED = {
    "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A", "domain": "a.test"}}],
    "groundingSupports": [
        {"segment": {"startIndex": 0, "endIndex": 2, "text": "Ra"}, "groundingChunkIndices": [0]},
        {"segment": {"startIndex": 0, "endIndex": 4, "text": "Rain"}, "groundingChunkIndices": [0]},
    ],
}
REDIRECTED = {
    **GROUNDED,
    "groundingChunks": [{"web": {"uri": "https://g.test/redirect/1", "title": "A", "domain": "a.test"}}],
}
CITED_IN_A_DOCUMENT = {
    "type": "char_location",
    "cited_text": "It rains.",
    "document_index": 0,
    "document_title": "A",
    "start_char_index": 0,
    "end_char_index": 9,
}
MAPPED = {"groundingChunks": [{"maps": {"uri": "https://a.test", "title": "A", "placeId": "p"}}]}
SCORED = {**GROUNDED, "groundingSupports": [{**GROUNDED["groundingSupports"][0], "confidenceScores": [0.5]}]}
GROUNDING = "candidates[0].groundingMetadata"


def anthropic(*blocks: Wire, **fields: Any) -> tuple[Wire, list[Wire]]:
    content = [*blocks] or [{"type": "text", "text": "Rain"}]
    usage = {"input_tokens": 1, "output_tokens": 2, **fields.pop("usage", {})}
    stop = {"stop_reason": "end_turn", "stop_sequence": None, **fields}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[Wire] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(content):
        opened = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": block["text"]}]
        deltas += [{"type": "citations_delta", "citation": cited} for cited in block.get("citations", ())]
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": stop, "usage": usage})
    return {**message, "content": content, **stop, "usage": usage}, [*events, {"type": "message_stop"}]


def chat(
    usage: Wire | None = None, choice: Wire | None = None, **message: Any
) -> tuple[Wire, list[Wire | None]]:
    said = {"role": "assistant", "content": "Rain", **message}
    counts = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, **(usage or {})}
    ended = {"index": 0, "finish_reason": "stop", **(choice or {})}
    head = {"id": "chatcmpl-1", "created": 1, "model": "m"}
    chunks: list[Wire] = [
        {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {"choices": [{**ended, "delta": {}}]},
        {"choices": [], "usage": counts},
    ]
    events = [{**head, "object": "chat.completion.chunk", **chunk} for chunk in chunks]
    whole = {**head, "object": "chat.completion", "choices": [{**ended, "message": said}], "usage": counts}
    return whole, [*events, None]


def gemini(usage: Wire | None = None, **candidate: Any) -> tuple[Wire, list[Wire]]:
    said = {"content": {"parts": [{"text": "Rain"}], "role": "model"}, "index": 0}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3, **(usage or {})}
    ended = {"finishReason": "STOP", **candidate}
    whole = {"candidates": [{**said, **ended}], "usageMetadata": counts, "responseId": "r"}
    last = {"candidates": [{"index": 0, **ended}], "usageMetadata": counts, "responseId": "r"}
    return whole, [{"candidates": [said], "responseId": "r"}, last]


def responses(*items: Wire, usage: Wire | None = None, annotations: Any = ()) -> tuple[Wire, list[Wire]]:
    text = {"type": "output_text", "text": "Rain", "annotations": [*annotations], "logprobs": []}
    message = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [text],
    }
    output = [*items, message]
    counts = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, **(usage or {})}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    begun = {**head, "status": "in_progress", "output": []}
    events: list[Wire] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(output):
        opened = {**item, "content": []} if "content" in item else item
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    whole = {**head, "status": "completed", "output": output, "usage": counts}
    return whole, [*events, {"type": "response.completed", "response": whole}]


def annotated(citation: Wire) -> tuple[Wire, list[Wire | None]]:
    return chat(annotations=[{"type": "url_citation", "url_citation": citation}] * 2)


def cited(*citations: Wire) -> tuple[Wire, list[Wire]]:
    return anthropic({"type": "text", "text": "Rain", "citations": [*citations]})


CITATION, DETAIL, COUNT, FIELD, STOP = (
    "citation.dropped",
    "citation.detail.dropped",
    "usage.detail.dropped",
    "field.unknown.dropped",
    "stop.sequence.dropped",
)
MATCHED = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
# upstream, reply, client, (code, place in the whole reply) of each loss
HARMLESS = {"hate": {"filtered": False, "severity": "safe"}, "jailbreak": {"detected": False}}
FOUND = {**HARMLESS, "jailbreak": {"filtered": False, "detected": True}}


def filtered_response(found: Wire) -> tuple[Wire, list[Wire]]:
    """As Azure sends it."""
    whole, frames = responses()
    filters = [{"blocked": False, "source_type": "prompt", "content_filter_results": found}]
    ended = {**whole, "content_filters": filters}
    return ended, [*frames[:-1], {"type": "response.completed", "response": ended}]


CASES: dict[str, tuple[str, Any, str, list[tuple[str, str]]]] = {
    "filters of Azure that found nothing": (
        "openai-chat",
        chat(choice={"content_filter_results": HARMLESS}),
        "anthropic",
        [],
    ),
    "a filter of Azure that found something": (
        "openai-chat",
        chat(choice={"content_filter_results": FOUND}),
        "gemini",
        [(FIELD, "choices[0].content_filter_results")],
    ),
    "filters of Azure's Responses that found nothing": (
        "openai-responses",
        filtered_response(HARMLESS),
        "anthropic",
        [],
    ),
    "a filter of Azure's Responses that found something": (
        "openai-responses",
        filtered_response(FOUND),
        "openai-chat",
        [(FIELD, "content_filters")],
    ),
    "quoted words to Gemini": (
        "anthropic",
        cited(CITED_BY_ANTHROPIC, CITED_BY_ANTHROPIC),
        "gemini",
        [(DETAIL, "content[0].citations")],
    ),
    "quoted words to Responses": (
        "anthropic",
        cited(CITED_BY_ANTHROPIC),
        "openai-responses",
        [(DETAIL, "content[0].citations")],
    ),
    "quoted words to Chat, which has a field for them": (
        "anthropic",
        cited(CITED_BY_ANTHROPIC),
        "openai-chat",
        [],
    ),
    "blocks of a search result": (
        "anthropic",
        cited(FOUND_BY_ANTHROPIC),
        "openai-chat",
        [(DETAIL, "content[0].citations")],
    ),
    "a range to Anthropic": (
        "openai-chat",
        annotated(ANNOTATION),
        "anthropic",
        [(DETAIL, "choices[0].message.annotations")],
    ),
    "a range to Responses, which has fields for it": (
        "openai-chat",
        annotated(ANNOTATION),
        "openai-responses",
        [],
    ),
    "a range that is the whole text": (
        "openai-chat",
        annotated({**ANNOTATION, "end_index": 4}),
        "anthropic",
        [],
    ),
    "an unknown field of Chat's citation": (
        "openai-chat",
        annotated({"url": "https://a.test", "title": "A", "rank": 1}),
        "gemini",
        [(DETAIL, "choices[0].message.annotations")],
    ),
    "an unknown field of a Responses citation": (
        "openai-responses",
        responses(annotations=[{"type": "url_citation", **ANNOTATION, "rank": 1}]),
        "gemini",
        [(DETAIL, "output[0].content[0].annotations")],
    ),
    "Gemini's range to Anthropic": (
        "gemini",
        gemini(groundingMetadata=GROUNDED),
        "anthropic",
        [(DETAIL, f"{GROUNDING}.groundingSupports")],
    ),
    "Gemini's range to Chat": ("gemini", gemini(groundingMetadata=GROUNDED), "openai-chat", []),
    "scores of Gemini's citations": (
        "gemini",
        gemini(groundingMetadata=SCORED),
        "openai-chat",
        [(DETAIL, f"{GROUNDING}.groundingSupports")],
    ),
    "the place on a map": (
        "gemini",
        gemini(groundingMetadata=MAPPED),
        "openai-chat",
        [(DETAIL, f"{GROUNDING}.groundingChunks")],
    ),
    "what Gemini searched for, and what it wants shown": (
        "gemini",
        gemini(
            groundingMetadata={
                **GROUNDED,
                "webSearchQueries": ["rain"],
                "searchEntryPoint": {"renderedContent": "<p>"},
                "retrievalMetadata": {},
            }
        ),
        "openai-responses",
        [(FIELD, f"{GROUNDING}.webSearchQueries"), (FIELD, f"{GROUNDING}.searchEntryPoint")],
    ),
    "Anthropic's stop sequence to Chat": (
        "anthropic",
        anthropic(**MATCHED),
        "openai-chat",
        [(STOP, "stop_sequence")],
    ),
    "Anthropic's stop sequence to Gemini": (
        "anthropic",
        anthropic(**MATCHED),
        "gemini",
        [(STOP, "stop_sequence")],
    ),
    "vLLM's stop sequence": (
        "openai-chat",
        chat(choice={"stop_reason": "END"}),
        "gemini",
        [(STOP, "choices[0].stop_reason")],
    ),
    "SGLang's stop sequence": (
        "openai-chat",
        chat(choice={"matched_stop": "END"}),
        "anthropic",
        [(STOP, "choices[0].matched_stop")],
    ),
    "a stop token": ("openai-chat", chat(choice={"stop_reason": 154827}), "anthropic", []),
    "Anthropic's counts": (
        "anthropic",
        anthropic(usage={"teapots": 1, "service_tier": "standard"}),
        "openai-chat",
        [(COUNT, "usage.teapots")],
    ),
    "Chat's counts": (
        "openai-chat",
        chat(usage={"teapots": 1, "cups": 0, "cost": 0.1, "prompt_tokens_details": {"stolen_tokens": 1}}),
        "anthropic",
        [(COUNT, "usage.teapots"), (COUNT, "usage.prompt_tokens_details.stolen_tokens")],
    ),
    "counts of a Responses reply": (
        "openai-responses",
        responses(
            usage={
                "num_server_side_tools_used": 1,
                "output_tokens_details": {"reasoning_tokens": 1, "teapots": 1},
            }
        ),
        "gemini",
        [(COUNT, "usage.num_server_side_tools_used"), (COUNT, "usage.output_tokens_details.teapots")],
    ),
    "logprobs of Chat": (
        "openai-chat",
        chat(choice={"logprobs": {"content": [{"token": "Rain", "logprob": -0.1}], "refusal": None}}),
        "anthropic",
        [("response.logprobs.dropped", "choices[0].logprobs")],
    ),
    "no logprobs in their field": (
        "openai-chat",
        chat(choice={"logprobs": {"content": None, "refusal": None}}),
        "gemini",
        [],
    ),
    "Anthropic's container": (
        "anthropic",
        anthropic(container={"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}),
        "openai-chat",
        [(FIELD, "container")],
    ),
    "places in a document": (
        "anthropic",
        cited(CITED_IN_A_DOCUMENT, CITED_BY_ANTHROPIC, CITED_IN_A_DOCUMENT),
        "openai-chat",
        [(CITATION, "content[0].citations[0]"), (CITATION, "content[0].citations[2]")],
    ),
    "the name of a site": (
        "gemini",
        gemini(groundingMetadata=REDIRECTED),
        "openai-responses",
        [(DETAIL, f"{GROUNDING}.groundingChunks")],
    ),
    "unknown fields of Gemini's call": (
        "gemini",
        gemini(
            content={
                "parts": [{"functionCall": {"name": "f", "args": {"a": 1}, "x": 1}, "y": 2}],
                "role": "model",
                "z": 3,
            }
        ),
        "openai-chat",
        [
            (FIELD, "candidates[0].content.parts[0].functionCall.x"),
            (FIELD, "candidates[0].content.parts[0].y"),
            (FIELD, "candidates[0].content.z"),
        ],
    ),
    "an unknown field of a summary": (
        "openai-responses",
        responses(
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm", "x": 1}],
            }
        ),
        "openai-chat",
        [(FIELD, "output[0].summary[0].x")],
    ),
    "details of Anthropic's counts": (
        "anthropic",
        anthropic(usage={"output_tokens_details": {"thinking_tokens": 1, "teapots": 1}}),
        "openai-chat",
        [(COUNT, "usage.output_tokens_details.teapots")],
    ),
    "Gemini's counts": (
        "gemini",
        gemini(usage={"teapots": 1, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}]}),
        "openai-chat",
        [(COUNT, "usageMetadata.teapots")],
    ),
}


def events(upstream: str, frames: list[Wire | None]) -> bytes:
    def printed(frame: Wire | None) -> bytes:
        data = b"[DONE]" if frame is None else jsontext.encode(frame)
        name = frame.get("type", "") if frame and upstream != "openai-chat" else ""
        return (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % data

    return b"".join(map(printed, frames))


# Chat's chunks name some places otherwise: a delta instead of the message
_DELTA = re.compile(r"\.delta\b")


def as_whole(where: str) -> str:
    return _DELTA.sub(".message", where)


@pytest.mark.parametrize("upstream, reply, client, lost", CASES.values(), ids=CASES)
def test_whole(upstream: str, reply: Any, client: str, lost: list[tuple[str, str]]) -> None:
    exchange = dragoman.Exchange(client, upstream)
    exchange.response(reply[0])
    found = [(loss.code, loss.where) for loss in exchange.losses if loss.kind != "invented"]
    assert sorted(found) == sorted(lost)
    assert [loss.code for loss in exchange.losses if loss.code not in CODES] == []
    quick = dragoman.Exchange(client, upstream)
    quick.response_bytes(jsontext.encode(reply[0]))
    assert quick.losses == exchange.losses


@pytest.mark.parametrize("upstream, reply, client, lost", CASES.values(), ids=CASES)
def test_streamed(upstream: str, reply: Any, client: str, lost: list[tuple[str, str]]) -> None:
    exchange = dragoman.Exchange(client, upstream)
    stream = exchange.stream()
    assert stream.feed(events(upstream, reply[1])) + stream.close()
    assert exchange.failure is None
    found = [(loss.code, as_whole(loss.where)) for loss in exchange.losses if loss.kind != "invented"]
    assert sorted(found) == sorted(lost)


@pytest.mark.parametrize("word", ["output_text.annotation", "output_text_annotation"])
def test_both_names_of_the_event_with_an_annotation(word: str) -> None:
    body, frames = responses()
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    added = {"annotation_index": 0, "annotation": {"type": "url_citation", **ANNOTATION}}
    text = {"type": "output_text", "text": "", "annotations": []}
    frames[2:2] = [
        {"type": "response.content_part.added", **place, "part": text},
        {"type": "response.output_text.delta", **place, "delta": "Rain"},
        {"type": f"response.{word}.added", **place, **added},
    ]
    exchange = dragoman.Exchange("openai-chat", "openai-responses")
    out = exchange.stream().feed(events("openai-responses", [*frames]))
    assert out.count(b"https://a.test") == 1
    assert exchange.losses == []
    assert body["status"] == "completed"


EMPTY = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    "item, blocks",
    [(EMPTY, ["text"]), ({**EMPTY, "encrypted_content": "eA=="}, ["redacted_thinking", "text"])],
    ids=["empty", "encrypted"],
)
def test_reasoning_without_text_or_state_is_nothing(item: Wire, blocks: list[str]) -> None:
    """An empty thinking block would be echoed for the rest of the conversation."""
    body, frames = responses(item)
    whole: Any = dragoman.Exchange("anthropic", "openai-responses").response(body)
    assert [block["type"] for block in whole["content"]] == blocks
    stream = dragoman.Exchange("anthropic", "openai-responses").stream()
    out = stream.feed(events("openai-responses", [*frames])) + stream.close()
    opened = re.findall(rb'"content_block":{"type":"(\w+)"', out)
    assert [kind.decode() for kind in opened] == blocks
