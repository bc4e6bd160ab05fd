"""`dragoman dataset`: conversations of a dataset into another layout, and what that would lose."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from dragoman.cli.options import collect
from dragoman.cli.output import SEVERITY_COLOURS
from dragoman.datasets import LossReport, Translation, layout_names
from dragoman.datasets.local import JobProgress, is_job, job_report, translate_files
from dragoman.datasets.worker import GO_ON

EXAMPLES = """\b
Examples:
  dragoman dataset report conversations.parquet --from openai-chat --to anthropic
  dragoman dataset translate conversations.parquet out/ --from openai-chat --to anthropic
  dragoman dataset translate sharegpt.jsonl out/ --from sharegpt --to openai-chat
  dragoman dataset translate conversations.parquet out/ --from openai-chat --to anthropic --resume
  dragoman dataset report out/
"""


_MOST_ROWS = 5  # that are named for an error


class OutputOptions(Struct, frozen=True):
    format: Literal["parquet", "jsonl"] | None = None
    resume: bool = False
    shard_rows: int = 10_000


class RowOptions(Struct, frozen=True):
    source: str
    target: str
    column: str
    source_dialect: str | None
    dialect: str | None
    id: str
    engine: Literal["local", "ray"]
    workers: int | None
    as_json: bool
    quiet: bool

    def run(self, files: tuple[str, ...], out: str | None, output: OutputOptions) -> LossReport:
        bar = ProgressLine(self.quiet)
        try:
            return translate_files(
                files,
                out,
                Translation(
                    self.source,
                    self.target,
                    self.column,
                    dialect=self.dialect,
                    source_dialect=self.source_dialect,
                ),
                id=self.id,
                engine=self.engine,
                workers=self.workers or 0,
                format=output.format or "",
                resume=output.resume,
                shard_rows=output.shard_rows,
                on_progress=bar,
            )
        except KeyboardInterrupt:
            if out:
                bar.close()
                click.echo(f"Interrupted. {GO_ON}", err=True)
            raise
        finally:
            bar.close()


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Translate the conversations of a dataset: files of Parquet, Arrow or JSON, or folders of them."""


def _layout_options(required: bool) -> Any:
    options = [
        click.option(
            "--from",
            "source",
            type=click.Choice(layout_names()),
            required=required,
            help="Layout of the rows.",
        ),
        click.option(
            "--to",
            "target",
            type=click.Choice(layout_names()),
            required=required,
            help="Layout of the output.",
        ),
        click.option(
            "--column", metavar="NAME", default="", help="The column with the conversation.  [the layout's]"
        ),
        click.option(
            "--from-dialect",
            "source_dialect",
            metavar="NAME",
            help="The rows hold tool calls as text, in this dialect.",
        ),
        click.option("--dialect", metavar="NAME", help="Write tool calls as text, in this dialect."),
        click.option(
            "--id", metavar="NAME", default="id", show_default=True, help="The column that names a row."
        ),
        click.option(
            "--engine",
            type=click.Choice(["local", "ray"]),
            default="local",
            show_default=True,
            help="Processes of this machine, or tasks of Ray, whose nodes must all see the files.",
        ),
        click.option("--workers", type=click.IntRange(1), help="Processes.  [one for each core]"),
        click.option("--json", "as_json", is_flag=True, help="Print the report as JSON to stdout."),
        click.option("--quiet", is_flag=True, help="No progress."),
    ]

    def add(function: Any) -> Any:
        function = collect(RowOptions)(function)
        for option in reversed(options):
            function = option(function)
        return function

    return add


@command.command()
@click.argument("files", metavar="FILE…", nargs=-1, type=click.Path(exists=True))
@click.argument("out", metavar="OUT/", type=click.Path())
@_layout_options(required=True)
@click.option(
    "--format", type=click.Choice(["parquet", "jsonl"]), help="Of the output.  [that of the first FILE]"
)
@click.option("--resume", is_flag=True, help="Go on with the job that is in OUT/.")
@click.option(
    "--shard-rows", type=click.IntRange(1), default=10_000, show_default=True, help="Rows of a shard."
)
@collect(OutputOptions)
def translate(job: RowOptions, output: OutputOptions, files: tuple[str, ...], out: str) -> int:
    """Translate every row of FILE… into shards in the folder OUT/.

    A row of the output has the columns of its source, and `body`, `losses` and `error` in place of the
    conversation. Exit code 1: some rows have an error. A job that was killed goes on with --resume.
    """
    if not files:
        raise click.UsageError(f"Only {out} is given. Name the FILE… to read and the folder OUT/ to write.")
    if os.path.isfile(out):
        raise click.UsageError(f"OUT/ is the folder to write, and {out} is a file")
    report = job.run(files, out, output)
    show(report, job.as_json)
    return 1 if report.failed else 0


@command.command()
@click.argument("files", metavar="FILE…|OUT/", nargs=-1, required=True, type=click.Path(exists=True))
@_layout_options(required=False)
def report(job: RowOptions, files: tuple[str, ...]) -> int:
    """Print what the rows of FILE… would lose. Nothing is written.

    Of the folder OUT/ of a job, print what its rows have lost.
    """
    if len(files) == 1 and is_job(files[0]):
        show(job_report(files[0]), job.as_json)
        return 0
    if not job.source or not job.target:
        raise click.UsageError("--from and --to are needed: no folder of a job is given")
    show(job.run(files, None, OutputOptions()), job.as_json)
    return 0


class ProgressLine:
    """On a terminal a line that is written again; elsewhere only the last one."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._last = ""

    def __call__(self, progress: JobProgress) -> None:
        self._last = describe_progress(progress)
        if self._live and not self._quiet:
            click.echo(f"\r{self._last}\x1b[K", nl=False, err=True)

    def close(self) -> None:
        if self._last and not self._quiet:
            click.echo(f"\r{self._last}\x1b[K" if self._live else self._last, err=True)
        self._last = ""


def describe_progress(progress: JobProgress) -> str:
    """`412000/1000000 rows  41 %  16400/s  3 failed  0:36 left`."""
    done, total, rate = progress.done, progress.total, progress.rate
    parts = [f"{done}/{total} rows", f"{100 * done // max(total, 1)} %", f"{rate:.0f}/s"]
    if progress.resumed:
        parts.append(f"{progress.resumed} done before")
    if progress.report.failed:
        parts.append(f"{progress.report.failed} failed")
    if rate and done < total:
        left = int((total - done) / rate)
        parts.append(f"{left // 60}:{left % 60:02} left")
    return "  ".join(parts)


def show(report: LossReport, as_json: bool) -> None:
    """The losses by code, the heaviest first, and the rows with errors."""
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return
    click.echo(f"{_rows(report.rows)}, {report.failed} with an error")
    width = max(map(len, report.codes), default=0)
    for code, count in report.by_weight():
        severity = click.style(f"{count.severity:9}", fg=SEVERITY_COLOURS[count.severity])
        click.echo(f"{severity} {code:{width}}  {_rows(count.row_count)}  {count.where}: {count.why}")
        click.echo(f"{'':9} {'':{width}}  such as {', '.join(count.rows)}")
    rows: dict[str, list[str]] = {}
    for id, error in report.errors.items():
        rows.setdefault(error, []).append(id)
    for error, named in rows.items():
        which = named[0] if len(named) == 1 else f"{len(named)} rows, such as {', '.join(named[:_MOST_ROWS])}"
        click.echo(f"{click.style('error', fg='red'):9} {which}: {error}")
    if report.failed > len(report.errors):
        click.echo(f"… and {_rows(report.failed - len(report.errors))} more")


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
