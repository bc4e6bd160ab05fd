"""Commands: `run_shell_command` as Gemini's agents know it, `shell` as Codex does.

The directory must be inside the root. What a command does is not restricted: that takes a sandbox, or a
person who confirms each command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragoman.client.tools import Tool
from dragoman.core import jsontext
from dragoman.toolkit.limits import Limits
from dragoman.toolkit.process import Finished, execute
from dragoman.toolkit.root import Refused, Root
from dragoman.toolkit.schema import array, integer, string, tool


def shell_tools(root: Root, limits: Limits) -> list[Tool]:
    async def run_shell_command(
        command: str, directory: str | None = None, description: str | None = None
    ) -> str:
        folder = root.folder(directory or ".")
        finished = await execute(["/bin/sh", "-c", command], folder, limits)
        return report(command, directory or "(root)", finished, limits)

    async def shell(command: Sequence[str], workdir: str | None = None, timeout_ms: int | None = None) -> str:
        if not command or isinstance(command, str):
            raise Refused("command is an array: the program and its arguments")
        seconds = limits.seconds if timeout_ms is None else min(limits.seconds, timeout_ms / 1000)
        folder = root.folder(workdir or ".")
        finished = await execute(command, folder, replace(limits, seconds=seconds), merged=True)
        return jsontext.dumps({"output": finished.output, "metadata": {"exit_code": finished.code}})

    return [
        tool(
            run_shell_command,
            "Execute a shell command",
            ["command"],
            parallel=False,
            command=string("The command, as sh takes it"),
            directory=string("Where to run it; default: the root"),
            description=string("What the command is for, in a few words"),
        ),
        tool(
            shell,
            "Run a program with its arguments; no shell reads them",
            ["command"],
            parallel=False,
            command=array("The program and its arguments"),
            workdir=string("Where to run it; default: the root"),
            timeout_ms=integer("Milliseconds until it is ended"),
        ),
    ]


def report(command: str, directory: str, finished: Finished, limits: Limits) -> str:
    output, error = finished.output.removesuffix("\n"), finished.error.removesuffix("\n")
    if finished.timed_out:
        error = f"{error}\n[ended after {limits.seconds:g} s]".lstrip("\n")
    return (
        f"Command: {command}\n"
        f"Directory: {directory}\n"
        f"Output: {output or '(empty)'}\n"
        f"Error: {error or '(none)'}\n"
        f"Exit Code: {finished.code}"
    )
