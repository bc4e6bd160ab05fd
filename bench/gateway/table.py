"""A run's results as Markdown: a row for each gateway and pair, then what was not measured and why."""

from collections.abc import Iterator

from bench.gateway.contenders import LIMIT
from bench.gateway.figures import OF_GATEWAY, OF_PAIR, Figure, Values
from bench.gateway.pairs import CHAT_CHAT
from bench.gateway.run import Results


def table(results: Results) -> Iterator[str]:
    yield row(["", "client → upstream", *(figure.title for figure in OF_PAIR), "× nginx's rate"])
    yield row(["---"] * (len(OF_PAIR) + 3))
    limit = results[LIMIT.name].pairs.get(CHAT_CHAT, {}) if LIMIT.name in results else {}
    for name, taken in results.items():
        for pair, values in taken.pairs.items():
            yield row([name, pair.title, *cells(OF_PAIR, values), ratio(values, limit)])
    yield ""
    yield row(["", "version", *(figure.title for figure in OF_GATEWAY)])
    yield row(["---"] * (len(OF_GATEWAY) + 2))
    for name, taken in results.items():
        if taken.values:
            yield row([name, taken.version, *cells(OF_GATEWAY, taken.values)])
    yield ""
    yield from notes(results)


def notes(results: Results) -> Iterator[str]:
    for name, taken in results.items():
        by_reason: dict[str, list[str]] = {}
        for what, reason in taken.notes.items():
            by_reason.setdefault(" ".join(reason.split())[:300], []).append(what)
        for reason, whats in by_reason.items():
            yield f"- {name}, {'; '.join(whats)}: {reason}"


def cells(figures: tuple[Figure, ...], values: Values) -> list[str]:
    return [f"{values[figure.key]:,.{figure.digits}f}" if figure.key in values else "–" for figure in figures]


def ratio(values: Values, limit: Values) -> str:
    return f"{values['rate'] / limit['rate']:.0%}" if "rate" in values and "rate" in limit else "–"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
