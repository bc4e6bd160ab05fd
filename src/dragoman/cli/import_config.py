"""`dragoman import`: another gateway's configuration as a dragoman.toml, and what was not carried over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import click

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.gateway.config import load
from dragoman.gateway.config.importers.findings import Finding, Grade
from dragoman.gateway.config.importers.litellm import Imported, import_litellm

_COLOURS = {"exact": "green", "approximate": "yellow", "by hand": "yellow", "unsupported": "red"}


@click.group()
def command() -> None:
    """Turn another gateway's configuration into a dragoman.toml."""


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--write", "target", metavar="FILE", help="Write the configuration there, if there is no such file yet."
)
@click.option("--json", "as_json", is_flag=True, help="Print the configuration and the findings as JSON.")
def litellm(file: str, target: str | None, as_json: bool) -> int:
    """Read LiteLLM's config.yaml; print dragoman.toml, and findings on stderr.

    \b
    exact        it does the same here
    approximate  it does nearly the same here; the line says what differs
    by hand      you have to do something
    unsupported  dragoman does not have it
    """
    with click.open_file(file, encoding="utf-8") as source:
        imported = import_litellm(source.read(), file)
    problem = _check(imported)
    if as_json:
        listed = [jsontext.decode(jsontext.encode(each)) for each in imported.findings]
        click.echo(jsontext.dumps({"config": imported.text, "findings": listed}))
    else:
        _print_findings(imported.findings)
    if target:
        _write(Path(target), imported.text)
    elif not as_json:
        click.echo(imported.text, nl=False)
    if missing := [name for name in imported.variables if not os.environ.get(name)]:
        click.echo(f"Set {', '.join(missing)} before you start dragoman.", err=True)
    if problem:
        click.echo(click.style(f"Correct this first: {problem}", fg="red"), err=True)
    return 1 if problem else 0


def _check(imported: Imported) -> str:
    """What `dragoman check` would say against the result, with every variable set; empty: nothing."""
    given = {name: value for name, value in os.environ.items() if value}
    try:
        load(imported.text, {**imported.stand_ins, **given})
    except ConfigError as error:
        return str(error)
    return ""


def _print_findings(findings: tuple[Finding, ...]) -> None:
    for grade in get_args(Grade):
        for finding in findings:
            if finding.grade == grade:
                click.echo(click.style(f"{grade:<12}", fg=_COLOURS[grade]) + _describe(finding), err=True)
    counts = [f"{sum(each.grade == grade for each in findings)} {grade}" for grade in get_args(Grade)]
    click.echo(f"{', '.join(counts)}. Fields that are not named were carried over as they are.", err=True)


def _describe(finding: Finding) -> str:
    return f"{finding.path}: {finding.what}" + (f". {finding.advice}" if finding.advice else "")


def _write(path: Path, text: str) -> None:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # the other file may hold keys
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already. Choose another name for --write.") from None
    click.echo(f"{path} is written. Next: dragoman check --config {path}", err=True)
