"""A run's results as Markdown: figures by pair and by gateway, the bars, and what is missing and why."""

from collections.abc import Iterator, Sequence

from bench.gateway.bars import Bar, bars, limit_of
from bench.gateway.figures import OF_GATEWAY, OF_PAIR, Figure, Values
from bench.gateway.run import Results


def report(results: Results) -> str:
    sections = (by_pair(results), by_gateway(results), beside_bars(results), notes(results))
    return "\n\n".join("\n".join(section) for section in sections)


def by_pair(results: Results) -> Iterator[str]:
    yield from head(["", "client → upstream", *(figure.title for figure in OF_PAIR), "of nginx's requests/s"])
    for name, taken in results.items():
        for pair, values in taken.pairs.items():
            yield row([name, pair.title, *cells(OF_PAIR, values), share(values, limit_of(results, pair))])


def by_gateway(results: Results) -> Iterator[str]:
    yield from head(["", "version", *(figure.title for figure in OF_GATEWAY)])
    for name, taken in results.items():
        if taken.values:
            yield row([name, taken.version, *cells(OF_GATEWAY, taken.values)])


def beside_bars(results: Results) -> Iterator[str]:
    found = list(bars(results))
    if found:
        yield from head(["bar", "mark", "measured", ""])
    for bar in found:
        sign = "≤" if bar.at_most else "≥"
        mark, measured = amount(bar, bar.mark), amount(bar, bar.measured)
        yield row([bar.what, f"{sign} {mark}", measured, "kept" if bar.kept else "**missed**"])


def amount(bar: Bar, value: float) -> str:
    digits = 0 if value >= 100 or value == int(value) else 2 if value < 10 else 1
    return f"{value:,.{digits}f} {bar.unit}"


def notes(results: Results) -> Iterator[str]:
    for name, taken in results.items():
        by_reason: dict[str, list[str]] = {}
        for what, reason in taken.notes.items():
            by_reason.setdefault(" ".join(reason.split())[:300], []).append(what)
        for reason, whats in by_reason.items():
            yield f"- {name}, {'; '.join(whats)}: {reason}"


def cells(figures: Sequence[Figure], values: Values) -> list[str]:
    return [f"{values[figure.key]:,.{figure.digits}f}" if figure.key in values else "–" for figure in figures]


def share(values: Values, limit: Values) -> str:
    return f"{values['rate'] / limit['rate']:.0%}" if "rate" in values and "rate" in limit else "–"


def head(titles: list[str]) -> Iterator[str]:
    yield row(titles)
    yield row(["---" for _ in titles])


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
