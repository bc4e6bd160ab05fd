"""An estimate of the input tokens of a request: tools, results, reasoning and images, for any upstream.

Clients compact their history by this number, so it errs on the high side (G110: 9router#2337,
copilot-api#210).
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core import jsontext
from dragoman.core.fold import Fold, FoldRun
from dragoman.core.model import (
    Base64,
    Foreign,
    Media,
    Message,
    Plain,
    Reasoning,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
)

CHARACTERS_PER_TOKEN = 4  # in a token, the usual rule of thumb
_IMAGE = 1600  # tokens
_PAGE_BYTES = 50_000  # of a document in base64, about; providers count each page as text and as image
_SMALLEST_TOOL = 300  # characters: a declaration has some structure around its schema
_NOTHING = 0, 1  # characters, tokens
_HOSTED = 350  # tokens that a hosted tool adds to the prompt


class Tally(Fold, frozen=True):
    """Counts the messages that pass, once somebody asks."""

    def begin(self, state: tuple[int, int] | None = None) -> TallyRun:
        return TallyRun(state or _NOTHING)


class TallyRun(FoldRun):
    """`counted` are those before `messages`."""

    counted: tuple[int, int]
    messages: Sequence[Message] = ()

    def feed(self, items: Sequence[Message], /) -> Sequence[Message]:
        self.messages = [*self.messages, *items] if self.messages else items
        return items

    def state(self) -> tuple[int, int]:
        """Characters, and tokens beside them."""
        characters, tokens = self.counted
        for message in self.messages:
            for part in message.parts:
                more = _size(part)
                characters, tokens = characters + more[0], tokens + more[1]
        self.counted, self.messages = (characters, tokens), ()
        return self.counted

    def take_messages(self) -> list[Message]:
        """Those that were not counted, which are counted now."""
        taken = [*self.messages]
        self.state()
        return taken


def estimate_tokens(request: Request, tally: TallyRun | None = None) -> int:
    """`tally`: of the messages, where the request holds none."""
    if tally is None:
        tally = TallyRun(_NOTHING)
        tally.feed(request.messages)
    characters, tokens = tally.state()
    for text in request.system:
        characters += len(text.text)
    for tool in request.tools:
        if isinstance(tool, ToolDeclaration):
            schema = len(tool.name) + len(jsontext.encode(tool.parameters or {}))
            characters += len(tool.description) + max(schema, _SMALLEST_TOOL)
        else:
            tokens += _HOSTED
    return characters // CHARACTERS_PER_TOKEN + tokens


def _size(part: object) -> tuple[int, int]:
    """Characters, and tokens beside them."""
    match part:
        case Text() | Reasoning() | Refusal():
            return len(part.text), 0
        case ToolCall():
            return len(part.name) + len(part.arguments), 0
        case ToolResult():
            sizes = [_size(item) for item in part.content]
            return sum(size[0] for size in sizes), sum(size[1] for size in sizes)
        case Media(source=Plain(text)):
            return len(text), 0
        case Media(kind="document", source=Base64(data)):
            return 0, _IMAGE * (1 + len(data) // _PAGE_BYTES)
        case Media():
            return 0, _IMAGE
        case Foreign():
            return len(jsontext.encode(part.body)), 0
        case _:
            return 0, 0
