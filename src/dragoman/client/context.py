"""What tools and hooks know about the run that they are part of, and what they can do to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic

from dragoman.core.errors import ConfigError
from dragoman.core.model import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default is in `typing` since Python 3.13

    from dragoman.client.loop import Run
    from dragoman.client.messages import AnyMessage, OpenAICall, ToolMessage
    from dragoman.client.providers import Model
    from dragoman.client.results import Result

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


class RunContext(Generic[Deps]):
    """A tool whose first parameter is a RunContext gets it; the model does not see that parameter.

    `deps` is what was given as `context` to `run`: connections, the user, whatever your tools need. `call` is
    the call that runs, None in hooks of the model. Outside a run (in a test) it is `RunContext(deps)`.
    """

    def __init__(
        self,
        deps: Deps,
        run: Run[Any] | None = None,
        call: OpenAICall | None = None,
        show: Callable[[Any], None] | None = None,
    ) -> None:
        self.deps = deps
        self.call: OpenAICall | None = call
        self._run, self._show = run, show

    @property
    def messages(self) -> Sequence[AnyMessage]:
        """The conversation so far."""
        return tuple(self._run.messages) if self._run else ()

    @property
    def usage(self) -> Usage:
        """The tokens of the run so far."""
        return self._run.usage if self._run else Usage()

    @property
    def cost(self) -> float | None:
        """US dollars of the run so far; None where a price is not known."""
        return self._run.cost if self._run else 0.0

    @property
    def turn(self) -> int:
        """How many replies there were."""
        return len(self._run.results) if self._run else 0

    @property
    def model(self) -> Model:
        if self._run is None:
            raise ConfigError("There is no model outside a run.")
        return self._run.model

    def progress(self, value: Any) -> None:
        """Show `value` as a ToolRunProgress event; from any thread."""
        if self._show:
            self._show(value)

    def stop(self) -> None:
        """End the run once the calls of this reply are answered: `stopped` is then "stopped"."""
        if self._run:
            self._run.stop_requested = True


class Hooks(Generic[Deps]):
    """Called around every request to the model and every call of a tool. Override what you need.

    A method may be async. What one raises ends the run. With several hooks the first is the outermost: it is
    called first before, and last after.
    """

    def before_model(self, context: RunContext[Deps], messages: Sequence[AnyMessage]) -> Any:
        """Return other messages to send instead, for this request only; None sends these."""

    def after_model(self, context: RunContext[Deps], result: Result[Any]) -> Any:
        """The reply, before its calls run."""

    def before_tool(self, context: RunContext[Deps], call: OpenAICall) -> Any:
        """Return a dict of other arguments, or a ToolMessage that answers the call instead; None runs it."""

    def after_tool(self, context: RunContext[Deps], call: OpenAICall, message: ToolMessage) -> Any:
        """Return another ToolMessage to send instead; None sends this one."""


class Cancellation:
    """Cancels a run from elsewhere: `run(…, cancel=c)`, and `c.cancel()` on another thread or in a handler.

    The run ends at once with `stopped == "cancelled"` and keeps what is complete. Threads of tools that are
    not async cannot be cancelled; their results are left out. One Cancellation serves any number of runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled: bool = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on cancellation, now if that has happened; returns what removes it again."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return lambda: self._remove(callback)
        callback()
        return lambda: None

    def _remove(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
