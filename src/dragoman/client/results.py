"""What a model answered: a message that can be put back, with all that is known about it."""

from __future__ import annotations

from typing import Any, Generic

from dragoman.client.hosted_parts import HostedCallResult, find_hosted_calls
from dragoman.client.messages import AssistantMessage
from dragoman.client.output import ExpectedOutput, InvalidOutput, Output, OutputError
from dragoman.core import jsontext
from dragoman.core.losses import Loss
from dragoman.core.model import Response, StopReason, Usage, Wire

_FINISH: dict[StopReason, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "context_full": "length",
    "refusal": "content_filter",
}


class Result(AssistantMessage, Generic[Output]):
    """`finish_reason` in OpenAI's words whatever the provider's are (`stop_reason` keeps those).

    `usage` counts tokens, `cost` is their price in US dollars (None where it is not known), `losses` lists
    what did not survive, `raw` is the wire: the body, or the frames of a stream. `problems` says why there is
    no valid `output`.
    """

    def __init__(
        self,
        response: Response,
        wire: Wire | list[Any],
        losses: list[Loss],
        provider: str,
        expected: ExpectedOutput[Output] | None = None,
    ) -> None:
        super().__init__(parts=response.parts)
        self.response: Response = response
        self.losses: list[Loss] = losses
        self.provider: str = provider
        self.id: str = response.id
        self.model: str = response.model
        self.finish_reason: str = _FINISH.get(response.stop.reason, response.stop.reason)
        self.stop_reason: str = response.stop.raw or response.stop.reason
        self.usage: Usage = response.usage or Usage()
        self.cost: float | None = None
        self._wire = wire
        self.problems: list[str] = []
        self.has_output = False
        self._output: Any = self.content
        if expected:
            self._read(expected)

    @property
    def output(self) -> Output:
        """The output, validated, where one was requested, else the text; raises OutputError."""
        if self.problems:
            raise OutputError(self.problems, self)
        return self._output

    @property
    def hosted_calls(self) -> list[HostedCallResult]:
        """What hosted tools did that ran here, as the provider has none: searches, fetches, MCP calls."""
        return find_hosted_calls(self.parts)

    @property
    def raw(self) -> Any:
        return [_read(frame) for frame in self._wire] if isinstance(self._wire, list) else self._wire

    @property
    def message(self) -> AssistantMessage:
        """The reply alone, without what is known about it."""
        return AssistantMessage(parts=self.parts)

    def __repr__(self) -> str:
        tokens = f"usage={self.usage.input}+{self.usage.output} tokens"
        losses = f", {len(self.losses)} losses" if self.losses else ""
        return f"{super().__repr__()[:-1]}, model={self.model!r}, {tokens}{losses})"

    def _read(self, expected: ExpectedOutput[Output]) -> None:
        called = bool(self.tool_calls)
        try:
            self._output = expected.read(self.parts)
            self.has_output: bool = not called or bool(expected.tool)
        except InvalidOutput as invalid:
            self.problems = [str(each) for each in invalid.args]
            if self.finish_reason not in ("stop", "tool_calls"):
                self.problems.append(f"the reply ended with {self.finish_reason}")
        if called and not self.has_output:
            self.problems = ["the model called tools; the output comes once they are answered"]


def _read(frame: Any) -> Any:
    try:
        return jsontext.decode(frame) if isinstance(frame, bytes | str) else frame
    except ValueError:  # [DONE]
        return frame
