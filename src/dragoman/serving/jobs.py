"""How a protocol describes what runs without its client: requests in the background, batches and files.

Each codec is a record of functions, for any upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from dragoman.core.errors import WireError
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Wire

DAY = 24 * 3600.0
LineStatus = Literal["completed", "failed", "cancelled", "expired"]


def read_cursor(query: Mapping[str, str], name: str, protocol: str) -> int:
    """The number after which a client wants the events of a stream; -1: all of them."""
    given = query.get(name, "-1") or "-1"
    if given != "-1" and not (given.isascii() and given.isdigit()):
        raise WireError(protocol, name, f"expected the number of an event, got {given!r}")
    return int(given[:18])


class BackgroundCodec(Struct, frozen=True, kw_only=True):
    """`label` says in a reply that it runs in the background. `encode_queued` makes the first reply, of a
    request with its id and the time; `with_status` makes each later one that no model wrote. `first_events`
    and `last_event` are the events around those of the run: all have a number, by which a client resumes the
    stream. `renumber` fits an event of the run into the log, or gives None where the log has it already.
    """

    label: Callable[[Wire], Wire]
    encode_queued: Callable[[Wire, str, int], Wire]
    with_status: Callable[[Wire, str, Failure | None], Wire]
    first_events: Callable[[Wire], list[Wire]]
    restart_event: Callable[[Wire, int], Wire]  # (reply, number), where another attempt begins
    last_event: Callable[[Wire, int], Wire]
    renumber: Callable[[Wire, int], Wire | None]
    reply_of: Callable[[Wire], Wire | None]  # in the event that ends a stream
    run_body: Callable[[Wire], Wire]  # the request without what asks for the background
    starting_after: Callable[[Mapping[str, str]], int]  # of a query; -1: from the beginning
    not_background: Failure  # to cancel something else
    not_streamed: Failure  # to stream what was not created as a stream
    event_field: str = "type"  # of an event: its name
    logs_all: bool = False  # what was created without a stream may be streamed; `run_body` asks for one


class BatchRequest(Struct, frozen=True):
    """A request for a batch. `settings` are what the batch repeats; `file` names its input, where that is a
    file; `output_life`: seconds for which the files with its results stay, 0: as long as the batch."""

    settings: Wire
    file: str = ""
    output_life: float = 0


class BatchLine(Struct, frozen=True):
    """One request of a batch, by the client's own name for it."""

    custom_id: str
    path: str
    body: bytes


class BatchState(Struct, frozen=True):
    """A batch as it is now. `counts`: its lines by status. `url`: of the gateway, as the client sees it."""

    id: str
    settings: Wire
    total: int
    created: float
    deadline: float
    cancelled: float | None
    ended: float | None
    counts: Mapping[str, int]
    url: str


class LineOutcome(Struct, frozen=True):
    """What became of a line. `body` is the answer, or an error; empty where it was not run."""

    id: str
    custom_id: str
    status: LineStatus
    http_status: int = 0
    body: Any = None
    request_id: str = ""
    losses: Sequence[Loss] = ()


class PageQuery(Struct, frozen=True):
    """What a client wants of a list, newest first unless `ascending`."""

    limit: int
    after: str = ""
    before: str = ""
    ascending: bool = False
    purpose: str = ""


class BatchCodec(Struct, frozen=True, kw_only=True):
    """`read_lines` reads the lines from the request, or from the content of its file, and the errors that it
    found in them; with errors, no line is run. `output_id`, of a batch: where its results are files, the id
    of the one with the answers (True), and of the one with the rest; else they are read from the batch."""

    id_prefix: str
    decode_create: Callable[[Wire], BatchRequest]
    read_lines: Callable[[Wire, bytes], tuple[list[BatchLine], list[Wire]]]
    encode_batch: Callable[[BatchState], Wire]
    encode_created: Callable[[Wire], Wire]
    encode_page: Callable[[Sequence[Wire], bool], Wire]
    encode_result: Callable[[LineOutcome], Wire]
    encode_deleted: Callable[[str], Wire]
    decode_page: Callable[[Mapping[str, str]], PageQuery]
    unknown: Callable[[str], Failure]
    output_id: Callable[[str, bool], str] | None = None


class StoredFile(Struct, frozen=True):
    """`batch`: whose results it holds; its content is then read from the lines. `protocol`: whose clients see
    it; empty: OpenAI's. `media_type` is what its sender says, or empty."""

    id: str
    name: str
    purpose: str
    batch: str
    size: int
    created: float
    expires: float
    protocol: str = ""
    media_type: str = ""


class FileContent(Struct, frozen=True):
    file: StoredFile
    data: bytes


class FileCodec(Struct, frozen=True, kw_only=True):
    """`decode_upload` reads the fields of a form: the purpose, and the seconds for which the file is kept, or
    0. `protocol`: that of its stored files."""

    protocol: str = ""
    id_prefix: str
    decode_upload: Callable[[Mapping[str, str]], tuple[str, float]]
    encode_file: Callable[[StoredFile], Wire]
    encode_page: Callable[[Sequence[Wire], bool], Wire]
    encode_deleted: Callable[[str], Wire]
    decode_page: Callable[[Mapping[str, str]], PageQuery]
    unknown: Callable[[str], Failure]


def page_limit(query: Mapping[str, str], default: int, most: int, protocol: str) -> int:
    given = query.get("limit", str(default))
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= most:
        raise WireError(protocol, "limit", f"expected a whole number from 1 to {most}, got {given!r}")
    return int(given)


def encode_losses(losses: Sequence[Loss]) -> Wire:
    """A field beside a result; nothing where nothing was lost."""
    if not losses:
        return {}
    named = ("kind", "code", "severity", "where", "why")
    return {"dragoman_losses": [{name: getattr(loss, name) for name in named} for loss in losses]}
