"""Calls that a client approves: questions and answers of a conversation, and calls that run exactly once.

a question stands in the conversation        --an answer allows it--> pending
pending, nobody has claimed it               --claimed--------------> it runs, and its result is kept
pending, another request or worker claimed it ----------------------> its result is waited for
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from msgspec.json import decode

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.errors import DragomanError
from dragoman.core.hosted import HostedError, HostedResult
from dragoman.core.model import ExecutedCall, Foreign, Message, Text
from dragoman.hosted.executor import CallLimits, failure
from dragoman.hosted.result_store import ResultStore, StoreUnusable, digest_of

_DENIED = "The user did not allow this call."
_LOOK_EVERY = 0.2  # seconds between two looks for the result of another worker
_Kept = tuple[str, HostedError | None]  # a result, as the store has it


class ApprovalError(DragomanError):
    """The answers of a request to questions of approval do not fit them."""


class Approvals:
    """Questions whether a call may run, and the client's answers. `pending`: allowed, and not run yet."""

    def __init__(self, messages: Sequence[Message], client: ProtocolLimits) -> None:
        self.questions: dict[str, ExecutedCall] = {}
        self.answers: dict[str, ExecutedCall] = {}
        self.done: set[str] = set()
        for past in past_calls(messages, client):
            if past.approval:
                self.done.add(past.approval)
            if past.step == "question":
                if past.id in self.questions:
                    raise ApprovalError(f"The approval request {past.id} is in the conversation twice.")
                self.questions[past.id] = past
            elif past.step == "answer":
                self._answer(past)

    def _answer(self, past: ExecutedCall) -> None:
        if past.id in self.answers:
            raise ApprovalError(f"The approval request {past.id} was answered twice.")
        if past.id not in self.questions:
            raise ApprovalError(
                f"There is no approval request {past.id} in the conversation. Send its item back before the "
                "answer, or continue the stored response that asked."
            )
        self.answers[past.id] = past

    @property
    def pending(self) -> list[ExecutedCall]:
        return [
            self.questions[id]
            for id, answer in self.answers.items()
            if not answer.failed and id not in self.done
        ]

    def denial(self, question: ExecutedCall) -> str:
        """What the model reads of a call that was denied; empty where it was not."""
        answer = self.answers.get(question.id)
        if answer is None or not answer.failed:
            return ""
        return f"{_DENIED} {answer.text}".rstrip()


def past_calls(messages: Sequence[Message], client: ProtocolLimits) -> Iterable[ExecutedCall]:
    """Calls that were executed, as the client's own parts show them."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, Foreign) and part.origin == client.protocol:
                past = client.hosted.decode(part.body)
                if past:
                    yield past


class ApprovedCalls:
    """Each runs once, whether the client waits for it or asks again, and whichever worker it asks: an
    approval that was sent twice must not delete a file twice."""

    def __init__(self, store: ResultStore, limits: CallLimits) -> None:
        self.store = store
        self._limits = limits
        self._tasks: dict[tuple[str, str], asyncio.Task[HostedResult]] = {}  # that run now

    async def run(
        self, caller: str, approval: str, call: Callable[[], Awaitable[HostedResult]]
    ) -> HostedResult:
        task = self._tasks.get((caller, approval))
        if task is None:
            task = asyncio.ensure_future(self._once(caller, digest_of("approval", approval), call))
            self._tasks[caller, approval] = task
            task.add_done_callback(lambda _: self._tasks.pop((caller, approval), None))
        return await asyncio.shield(task)

    async def _once(
        self, caller: str, digest: str, call: Callable[[], Awaitable[HostedResult]]
    ) -> HostedResult:
        try:
            if not await self.store.claim(caller, digest):
                return await self._result_of_another(caller, digest)
        except StoreUnusable:
            return failure("unavailable", "the store is away, and the call may have run already: not run")
        result = await call()
        with suppress(StoreUnusable):  # who asks again is told that it ran
            await self.store.remember(caller, digest, jsontext.encode([result.text, result.error]))
        return result

    async def _result_of_another(self, caller: str, digest: str) -> HostedResult:
        looks = int(self._limits.seconds / _LOOK_EVERY) + 1
        for _ in range(looks):
            kept = (await self.store.recall_many(caller, [digest])).get(digest)
            if kept:
                text, error = decode(kept, type=_Kept)
                return HostedResult((Text(text),), error=error)
            await asyncio.sleep(_LOOK_EVERY)
        return failure("unavailable", "the call has run once already; its result is not known")

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
