"""Options that reach a command as one value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from msgspec import Struct

Command = Callable[..., Any]


def collect(kind: type[Struct]) -> Callable[[Command], Command]:
    """The options that are named as the fields of `kind` are given to the command as one value of it, which
    comes first. Stands below them, directly above the command or another `collect`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_value(*values: Struct, **given: Any) -> Any:
            value = kind(**{name: given.pop(name) for name in kind.__struct_fields__})
            return command(*values, value, **given)

        return with_value

    return decorate
