"""The table: kernel, the floor and, if asked for, Ray, on this machine and now.

python -m benchmarks                                   everything, about two minutes
python -m benchmarks --only "one by one"               some rows
python -m benchmarks --json                            for a script
python -m benchmarks --compare /path/to/ray/python     beside Ray, run by an interpreter that has it
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.floor import FLOORS

BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
ROWS = Path(__file__).with_name("rows.py")
LOWER_IS_BETTER = ("s", "", "MB")

Measured = dict[str, tuple[float, str, str]]  # name -> value, unit, floor


def measure(python: str, engine: str, seconds: float, only: str) -> Measured:
    """Run every row in a fresh process; return name to (value, unit, floor)."""
    command = [python, str(ROWS), "--engine", engine, "--seconds", str(seconds), "--only", only]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    print(f"measuring {engine}", file=sys.stderr, flush=True)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if result.returncode:
        raise SystemExit(
            f"{engine} could not be measured: {' '.join(command)} ended with exit code {result.returncode}"
        )
    return {name: (value, unit, floor) for name, value, unit, floor in json.loads(result.stdout.splitlines()[-1])}


def medians(rounds: list[Measured]) -> Measured:
    """Return the median of each row."""
    return {
        name: (statistics.median(measured[name][0] for measured in rounds), unit, floor)
        for name, (_, unit, floor) in rounds[0].items()
    }


def advantage(ours: float, theirs: float, unit: str) -> float:
    """Return how many times better `ours` is."""
    if math.isnan(ours) or math.isnan(theirs) or not ours or not theirs:
        return math.nan
    return theirs / ours if unit in LOWER_IS_BETTER else ours / theirs


def lines(kernel: Measured, floors: dict[str, float], ray: Measured) -> list[dict[str, Any]]:
    """Return the table as one mapping per row."""
    table = []
    for name, (value, unit, floor) in kernel.items():
        line: dict[str, Any] = {"row": name, "kernel": value, "unit": unit}
        if floor:
            line |= {"floor": floors[floor], "of floor": value / floors[floor]}
        if name in ray:
            line |= {"ray": ray[name][0], "times ray": advantage(value, ray[name][0], unit)}
        table.append(line)
    return table


def number(value: float | None) -> str:
    """Return a number with three digits that matter, or nothing."""
    if value is None or math.isnan(value):
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show(table: list[dict[str, Any]], with_ray: bool) -> str:
    """Return the table as markdown, aligned for terminals too."""
    heads = ["row", "kernel", "unit", "floor", "of floor"] + (["ray", "times ray"] if with_ray else [])
    cells = [[line.get(h) if h in ("row", "unit") else number(line.get(h)) for h in heads] for line in table]
    widths = [max(len(h), *(len(c[i] or "") for c in cells)) for i, h in enumerate(heads)]
    left = (0, 2)

    def text(parts: list[Any]) -> str:
        columns = enumerate(zip(parts, widths, strict=True))
        aligned = [(part or "").ljust(w) if i in left else (part or "").rjust(w) for i, (part, w) in columns]
        return "| " + " | ".join(aligned) + " |"

    rule = ["-" * w if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([text(heads), text(rule), *map(text, cells)])


def machine() -> str:
    """Return the machine in a line."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass  # no /proc: the platform's own word has to do
    gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return f"{os.cpu_count()} CPUs ({model}), {gigabytes:.0f} GB, {platform.system()} {platform.release()}"


def write(page: Path, text: str) -> None:
    """Put `text` between the marks of a page. Raises ValueError when it has none."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{page} has no lines {BEGIN} and {END} to write between")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure kernel beside bare CPython.")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to measure each row (default: 1)")
    parser.add_argument("--rounds", type=int, default=1, help="repeat, and show medians (default: 1)")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", metavar="PAGE", default="", help="put the table into a page, between its two marks")
    parser.add_argument("--compare", metavar="PYTHON", default="", help="an interpreter that has Ray, to run it beside")
    given = parser.parse_args()
    kernel, ray, floor_rounds = [], [], []
    for _ in range(given.rounds):
        kernel.append(measure(sys.executable, "kernel", given.seconds, given.only))
        floor_rounds.append({name: rate(given.seconds) for name, rate in FLOORS.items()})
        if given.compare:
            ray.append(measure(given.compare, "ray", given.seconds, given.only))
    floors = {name: statistics.median(values[name] for values in floor_rounds) for name in FLOORS}
    table = lines(medians(kernel), floors, medians(ray) if ray else {})
    ratios = [line["times ray"] for line in table if not math.isnan(line.get("times ray", math.nan))]
    about = f"{date.today()}, {machine()}, Python {platform.python_version()}, median of {given.rounds} x best of 3"
    if given.json:
        print(json.dumps({"about": about, "floors": floors, "rows": table}, indent=2))
        return 0
    text = f"{about}.\n\n{show(table, bool(ray))}"
    if ratios:
        text += f"\n\nTimes Ray, geometric mean of {len(ratios)} rows: {statistics.geometric_mean(ratios):.1f}."
    print(f"\n{text}")
    if given.write:
        write(Path(given.write), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
