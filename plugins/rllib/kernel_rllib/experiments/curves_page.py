"""Curves as one HTML page with the drawing in it: it needs no library, no server, no network."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Sequence

from kernel_rllib.experiments.curves import COLOURS, WORDS, Curve
from kernel_runs.loggers.files import write_whole

_WIDTH, _HEIGHT = 960, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 16, 16, 48
_MOST_POINTS = 1500
_STYLE = """
body { margin: 0; background: #f6f7fb; color: #1f2937; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 56px; }
h1 { margin: 0 0 16px; font-size: 24px; letter-spacing: -0.02em; }
section { background: #fff; border: 1px solid #e5e7eb; border-radius: 14px; padding: 20px; margin-top: 18px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 12px; fill: #6b7280; }
svg path { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .grid { stroke: #e5e7eb; stroke-width: 1; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 13px; }
th { text-align: right; color: #6b7280; font-weight: 600; border-bottom: 2px solid #e5e7eb; padding: 6px 10px; }
td { text-align: right; border-bottom: 1px solid #e5e7eb; padding: 6px 10px; overflow-wrap: anywhere; }
th:first-child, td:first-child { text-align: left; }
i { display: inline-block; width: 14px; height: 4px; border-radius: 2px; margin-right: 8px; vertical-align: middle; }
"""


def write_page(curves: Sequence[Curve], path: str, metric: str, over: str) -> str:
    """Write a page of curves, and return its path."""
    place = os.path.abspath(os.path.expanduser(path))
    write_whole(place, page(curves, metric, over).encode())
    return place


def page(curves: Sequence[Curve], metric: str, over: str) -> str:
    """Return the page: a drawing, and a table of the runs."""
    x_word, y_word = html.escape(WORDS.get(over, over)), html.escape(WORDS.get(metric, metric))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{y_word}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{y_word}</h1>\n"
        f"<section>{drawing(curves, x_word, y_word)}</section>\n<section>{_table(curves, x_word)}</section>\n"
        "</main></body></html>\n"
    )


def drawing(curves: Sequence[Curve], x_word: str, y_word: str) -> str:
    """Return the drawing as SVG; words are as HTML has them."""
    x_ticks = ticks(min(min(curve.x) for curve in curves), max(max(curve.x) for curve in curves))
    y_ticks = ticks(min(min(curve.y) for curve in curves), max(max(curve.y) for curve in curves))
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(value: float) -> float:
        return _LEFT + inner_width * (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])

    def up(value: float) -> float:
        return _TOP + inner_height * (1 - (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]))

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{y_word} over {x_word}">']
    for value in y_ticks:
        y = up(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
    for value in x_ticks:
        parts.append(
            f'<text x="{across(value):.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{value:,.6g}</text>'
        )
    parts.append(f'<text x="{_LEFT + inner_width / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{x_word}</text>')
    for number, curve in enumerate(curves):
        step = max(1, math.ceil(len(curve.x) / _MOST_POINTS))
        chosen = sorted({*range(0, len(curve.x), step), len(curve.x) - 1})
        points = " ".join(f"{across(curve.x[i]):.1f},{up(curve.y[i]):.1f}" for i in chosen)
        colour = COLOURS[number % len(COLOURS)]
        shape = f'<path stroke="{colour}" d="M{points.replace(" ", " L")}"/>'
        if len(chosen) == 1:
            left, top = points.split(",")
            shape = f'<circle cx="{left}" cy="{top}" r="4" fill="{colour}"/>'
        parts.append(f"<g><title>{html.escape(curve.name)}</title>{shape}</g>")
    return "\n".join([*parts, "</svg>"])


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return round numbers, at least two, that go from `low` or below to `high` or above."""
    if high <= low:
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _table(curves: Sequence[Curve], x_word: str) -> str:
    rows = []
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        cells = (f"{curve.y[-1]:,.6g}", f"{max(curve.y):,.6g}", f"{curve.x[-1]:,.6g}", str(len(curve.x)))
        name = f'<i style="background:{colour}"></i>{html.escape(curve.name)}'
        rows.append(f'<tr><td title="{html.escape(curve.path)}">{name}</td><td>{"</td><td>".join(cells)}</td></tr>')
    head = f"<tr><th>run</th><th>last</th><th>most</th><th>{x_word}</th><th>results</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
