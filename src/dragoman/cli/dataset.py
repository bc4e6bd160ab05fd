"""`dragoman dataset`: conversations of a dataset into another layout, and what that would lose."""

from __future__ import annotations

import sys
from typing import Any, Literal

import click
import msgspec

from dragoman.cli.output import SEVERITY_COLOURS
from dragoman.datasets import LossReport, Translation, layout_names
from dragoman.datasets.local import JobProgress, is_job, job_report, translate_files

EXAMPLES = """\b
Examples:
  dragoman dataset report conversations.parquet --from openai-chat --to anthropic
  dragoman dataset translate conversations.parquet out/ --from openai-chat --to anthropic
  dragoman dataset translate sharegpt.jsonl out/ --from sharegpt --to openai-chat
  dragoman dataset translate conversations.parquet out/ --from openai-chat --to anthropic --resume
  dragoman dataset report out/
"""


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Translate the conversations of a dataset: files of Parquet, JSONL or JSON arrays."""


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
        for option in reversed(options):
            function = option(function)
        return function

    return add


@command.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(exists=True))
@click.argument("out", metavar="OUT/", type=click.Path(file_okay=False))
@_layout_options(required=True)
@click.option(
    "--format", type=click.Choice(["parquet", "jsonl"]), help="Of the output.  [that of the first FILE]"
)
@click.option("--resume", is_flag=True, help="Go on with the job that is in OUT/.")
@click.option(
    "--shard-rows", type=click.IntRange(1), default=10_000, show_default=True, help="Rows of a shard."
)
def translate(
    files: tuple[str, ...],
    out: str,
    source: str,
    target: str,
    column: str,
    format: Literal["parquet", "jsonl"] | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Translate every row of FILE… into shards in the folder OUT/.

    A row of the output has the columns of its source, and `body`, `losses` and `error` in place of the
    conversation. Exit code 1: some rows have an error. A job that was killed goes on with --resume.
    """
    bar = ProgressLine(quiet)
    report = translate_files(
        files, out, Translation(source, target, column), format=format or "", on_progress=bar, **options
    )
    bar.close()
    show(report, as_json)
    return 1 if report.failed else 0


@command.command()
@click.argument("files", metavar="FILE…|OUT/", nargs=-1, required=True, type=click.Path(exists=True))
@_layout_options(required=False)
def report(
    files: tuple[str, ...],
    source: str | None,
    target: str | None,
    column: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Print what the rows of FILE… would lose. Nothing is written.

    Of the folder OUT/ of a job, print what its rows have lost.
    """
    if len(files) == 1 and is_job(files[0]):
        show(job_report(files[0]), as_json)
        return 0
    if not source or not target:
        raise click.UsageError("--from and --to are needed: no folder of a job is given")
    bar = ProgressLine(quiet)
    found = translate_files(files, None, Translation(source, target, column), on_progress=bar, **options)
    bar.close()
    show(found, as_json)
    return 0


class ProgressLine:
    """On a terminal a line that is written again; elsewhere only the last one."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._last = ""

    def __call__(self, progress: JobProgress) -> None:
        self._last = described(progress)
        if self._live and not self._quiet:
            click.echo(f"\r{self._last}\x1b[K", nl=False, err=True)

    def close(self) -> None:
        if self._last and not self._quiet:
            click.echo(f"\r{self._last}\x1b[K" if self._live else self._last, err=True)


def described(progress: JobProgress) -> str:
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
    click.echo(f"{report.rows} rows, {report.failed} with an error")
    width = max(map(len, report.codes), default=0)
    for code, count in report.by_weight():
        severity = click.style(f"{count.severity:9}", fg=SEVERITY_COLOURS[count.severity])
        click.echo(f"{severity} {code:{width}}  {count.row_count} rows  {count.where}: {count.why}")
        click.echo(f"{'':9} {'':{width}}  such as {', '.join(count.rows)}")
    for id, error in report.errors.items():
        click.echo(f"{click.style('error', fg='red'):9} {id}: {error}")
    if report.failed > len(report.errors):
        click.echo(f"… and {report.failed - len(report.errors)} rows more")
