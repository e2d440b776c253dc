"""An experiment as one self-contained HTML page, without a server or a network."""

from __future__ import annotations

import base64
import html
import numbers
import os
from collections.abc import Iterable
from typing import Any

from kernel_runs.progress.text import cell, duration
from kernel_runs.reports import AUTO_KEYS, CONFIG, TIME_TOTAL_S, flatten, look_up
from kernel_tune.analysis.data import ExperimentData, Source, TrialData, data_of
from kernel_tune.analysis.page_style import SCRIPT, STYLE
from kernel_tune.analysis.plots.bars import importance_figure
from kernel_tune.analysis.plots.curves import curves_figure
from kernel_tune.analysis.plots.parallel import parallel_figure
from kernel_tune.analysis.plots.scatter import slices_figure
from kernel_tune.analysis.plots.style import as_png
from kernel_tune.analysis.result import error_of
from kernel_tune.trial import Status

_MOST_METRICS = 8


def write_html(source: Source, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None) -> str:
    """Write a page about an experiment: summary, best trial, plots, a table of all trials, errors. Return its path.

    `source` is a `ResultGrid`, an analysis, or an experiment's directory.
    """
    place = os.path.abspath(os.path.expanduser(os.fspath(path)))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write(page(data_of(source, metric, mode)))
    return place


def page(data: ExperimentData) -> str:
    """Return the page as HTML."""
    name = os.path.basename(data.path) or "experiment"
    parts = [
        f"<header><h1>{html.escape(name)}</h1><p>{html.escape(data.path)}</p></header>",
        _cards(data),
        _best(data),
        _pictures(data),
        _table(data),
        _errors(data),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(name)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><main>\n{chr(10).join(parts)}\n</main>\n"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _cards(data: ExperimentData) -> str:
    """Return the figures at the top."""
    failed = sum(trial.trial.status is Status.ERROR for trial in data.trials)
    times = [look_up(trial.trial.last_result, TIME_TOTAL_S) for trial in data.trials]
    spent = sum(float(value) for value in times if isinstance(value, numbers.Real))
    cards: list[tuple[str, Any, str]] = [("", len(data.trials), "trials")]
    if data.best is not None:
        cards.insert(0, ("best", cell(data.best.score), f"best {data.metric} ({data.mode})"))
    cards.append(("failed" if failed else "", failed, "failed"))
    cards.append(("", sum(trial.trial.results for trial in data.trials), "results"))
    cards.append(("", duration(spent), "time of all trials"))
    shown = (f'<div class="card {kind}"><b>{html.escape(str(value))}</b><span>{html.escape(words)}</span></div>'
             for kind, value, words in cards)  # fmt: skip
    return f'<div class="cards">{"".join(shown)}</div>'


def _best(data: ExperimentData) -> str:
    if data.best is None:
        return ""
    trial = data.best.trial
    numbers_of = _user_metrics([data.best], limit=24)
    metrics = [(key, look_up(trial.last_result, key)) for key in [data.metric, *numbers_of] if key]
    config = [(key, value) for key, value in flatten(trial.config).items()]
    return (
        f'<section class="best"><h2>Best trial: {html.escape(str(trial))}</h2>'
        f"<h3>Configuration</h3>{_list(config)}<h3>Last result</h3>{_list(dict(metrics).items())}"
        f"<h3>Directory</h3><div>{html.escape(trial.logdir)}</div></section>"
    )


def _list(pairs: Iterable[tuple[str, Any]]) -> str:
    shown = (f"<div><dt>{html.escape(str(key))}</dt><dd>{html.escape(cell(value))}</dd></div>" for key, value in pairs)
    return f"<dl>{''.join(shown)}</dl>"


def _pictures(data: ExperimentData) -> str:
    """Return all plots, embedded in the page."""
    made = [
        ("Learning curves", curves_figure(data)),
        ("Parallel coordinates", parallel_figure(data)),
        ("Parameter importance", importance_figure(data)),
        ("Slices", slices_figure(data)),
    ]
    return "\n".join(
        f'<section><h2>{title}</h2><img alt="{title} of {html.escape(data.metric)}" '
        f'src="data:image/png;base64,{base64.b64encode(as_png(picture)).decode()}"></section>'
        for title, picture in made
    )


def _user_metrics(trials: Iterable[TrialData], limit: int) -> list[str]:
    """Return the keys of up to `limit` numbers that trials report themselves."""
    found: dict[str, None] = {}
    for trial in trials:
        for key, value in flatten(trial.trial.last_result).items():
            known = key in AUTO_KEYS or key.startswith(CONFIG + "/")
            if not known and isinstance(value, numbers.Real) and not isinstance(value, bool):
                found[key] = None
    return list(found)[:limit]


def _table(data: ExperimentData) -> str:
    """Return the table of all trials, best first."""
    others = [key for key in _user_metrics(data.trials, _MOST_METRICS) if key != data.metric]
    axes = [axis.name for axis in data.axes]
    headers = [("Trial", True), ("Status", True), (data.metric, False), *((axis.name, bool(axis.categories)) for axis in
               data.axes), *((key, False) for key in others), ("iterations", False), ("time (s)", False)]  # fmt: skip
    ranked = data.compared[::-1]
    rows = [
        _row(data, trial, [*(trial.parameters.get(name) for name in axes),
                           *(look_up(trial.trial.last_result, key) for key in others), trial.trial.iteration or None,
                           look_up(trial.trial.last_result, TIME_TOTAL_S)], [text for _, text in headers])
        for trial in [*ranked, *(trial for trial in data.trials if trial.score is None)]
    ]  # fmt: skip
    head = "".join(
        f'<th scope="col"{" class=text" if text else ""}'
        f"{' aria-sort=' + ('descending' if data.mode == 'max' else 'ascending') if name == data.metric else ''}>"
        f"<button>{html.escape(name)}</button></th>"
        for name, text in headers
    )
    return (
        '<section><h2>All trials</h2><input id="filter" type="search" placeholder="Filter trials" '
        f'aria-label="Filter trials"><div class="scroll"><table id="trials"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _row(data: ExperimentData, trial: TrialData, values: list[Any], texts: list[bool]) -> str:
    status = str(trial.trial.status)
    marked = f'<span class="mark"></span>{html.escape(status.lower())}'
    cells = [_cell(str(trial.trial), html.escape(str(trial.trial)), True), _cell(status, marked, True)]
    for value, text in zip([trial.score, *values], texts[2:], strict=True):
        cells.append(_cell("" if value is None else str(value), html.escape(cell(value)), text))
    best = " best" if trial is data.best else ""
    return f'<tr class="{status}{best}">{"".join(cells)}</tr>'


def _cell(value: str, shown: str, is_text: bool) -> str:
    kind = ' class="text"' if is_text else ""
    return f'<td{kind} data-value="{html.escape(value)}">{shown}</td>'


def _errors(data: ExperimentData) -> str:
    failed = [(trial.trial, error) for trial in data.trials if (error := error_of(trial.trial)) is not None]
    if not failed:
        return ""
    shown = (f"<details><summary>{html.escape(str(trial))}</summary><pre>{html.escape(str(error))}</pre></details>"
             for trial, error in failed)  # fmt: skip
    return f"<section><h2>Errors</h2>{''.join(shown)}</section>"
