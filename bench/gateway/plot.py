"""Two charts of bars as one SVG, on a logarithmic scale: the field spans four powers of ten."""

import math
from collections.abc import Iterator
from html import escape

from bench.gateway.contenders import DRAGOMAN, LIMIT
from bench.gateway.figures import OF_PAIR, Figure
from bench.gateway.pairs import ANTHROPIC_CHAT, CHAT_ANTHROPIC, CHAT_CHAT, Pair
from bench.gateway.run import Results

SHOWN = (CHAT_CHAT, ANTHROPIC_CHAT, CHAT_ANTHROPIC)
CHARTS = {"rate": 10.0, "events": 100.0}
"""Which figures, and where their scales begin."""
WIDTH, LEFT, RIGHT, ROW, TITLE = 860, 250, 110, 22, 46
COLOURS = {LIMIT.name: "#8a8f98", DRAGOMAN.name: "#c2410c"}
OTHER = "#4b6a9b"
STYLE = "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}"

Bars = list[tuple[str, Pair, float]]


def plot(results: Results) -> str:
    charts = [(figure, bars_of(results, figure.key)) for figure in OF_PAIR if figure.key in CHARTS]
    height, parts = 0, list[str]()
    for figure, bars in charts:
        parts += chart(figure, bars, top=height)
        height += TITLE + ROW * len(bars)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + 12}">'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>", ""])


def bars_of(results: Results, key: str) -> Bars:
    found = [
        (name, pair, values[key])
        for name, taken in results.items()
        for pair, values in taken.pairs.items()
        if pair in SHOWN and key in values
    ]
    return sorted(found, key=lambda bar: -bar[2])


def chart(figure: Figure, bars: Bars, top: int) -> Iterator[str]:
    words = f"{figure.title}, one core (logarithmic)"
    yield f'<text class="title" x="12" y="{top + 28}">{words}</text>'
    least = CHARTS[figure.key]
    most = max((value for _, _, value in bars), default=least * 10)
    scale = (WIDTH - LEFT - RIGHT) / math.log10(most / least)
    for number, (name, pair, value) in enumerate(bars):
        y = top + TITLE + ROW * number
        length = max(2.0, scale * math.log10(max(value, least) / least))
        colour = COLOURS.get(name, OTHER)
        yield f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(f"{name}, {pair.title}")}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.0f}" height="{ROW - 6}" rx="2" fill="{colour}"/>'
        yield f'<text x="{LEFT + length + 6:.0f}" y="{y + 13}">{value:,.0f}</text>'
