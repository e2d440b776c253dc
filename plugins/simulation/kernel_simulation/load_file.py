"""Loads as files: TOML or JSON in, JSON out. Whatever is wrong is refused with the place where it stands."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from kernel.plugins.selection import nearest
from kernel_simulation.distributions import Distribution
from kernel_simulation.load import FORMS, GANGS, SET_RESOURCE, TASKS, Change, Load, NodeKind, Work
from kernel_simulation.load_values import DISTRIBUTIONS, VALUES
from kernel_spec.errors import OptionError
from kernel_spec.scheduling import GROUP_STRATEGIES

_LISTS = {"nodes": NodeKind, "work": Work, "changes": Change}


def read_load(path: Path) -> Load:
    """Return the load that a `.toml` or `.json` file describes. Raises OptionError, naming file and place."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} can't be read: {error}") from error
    is_json = path.suffix == ".json"
    try:
        data = json.loads(text) if is_json else _toml(text)
    except ValueError as error:
        expected = "JSON" if is_json else "TOML (JSON must be in a file called .json)"
        raise OptionError(f"{path} is not valid {expected}: {error}") from error
    return load_from(data, str(path))


def write_load(load: Load, path: Path) -> None:
    """Write a load as JSON, as `read_load` reads it. Raises OptionError when the file can't be written."""
    try:
        path.write_text(json.dumps(as_data(load), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"the load can't be written to {path}: {error.strerror}") from error


def as_data(load: Load) -> dict[str, Any]:
    """Return a load as plain data, as `load_from` takes it; what has its default is left out."""
    data = _plain(load)
    data |= {key: [_plain(row) for row in getattr(load, key)] for key in _LISTS if getattr(load, key)}
    for row in data["work"]:
        row[row.pop("form")] = row.pop("count")
    return data


def load_from(data: Any, where: str) -> Load:
    """Return the load that plain data describes; `where` names the data. Raises OptionError, naming the place."""
    if not isinstance(data, Mapping):
        raise OptionError(f"{where}: a load is a table with nodes and work, not {data!r}")
    given = {"name": Path(where).stem, **data}
    for key, made in _LISTS.items():
        rows = given.get(key, ())
        if not isinstance(rows, Sequence) or isinstance(rows, str):
            raise OptionError(f"{where}: {key} must be a list of tables, not {rows!r}")
        given[key] = tuple(_row(made, row, f"{where}: {key}[{number}]") for number, row in enumerate(rows))
    load: Load = _record(Load, given, where)
    _check_whole(load, where)
    return load


# -- reading -------------------------------------------------------------------------------------------------------


def _toml(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found]
    return tomllib.loads(text)


def _row(made: type, row: Any, where: str) -> Any:
    if not isinstance(row, Mapping):
        raise OptionError(f"{where} must be a table, not {row!r}")
    name = row.get("name") or row.get("kind")
    where = f"{where} ({name})" if name else where
    return _work(dict(row), where) if made is Work else _record(made, row, where)


def _work(row: dict[str, Any], where: str) -> Work:
    forms = [form for form in FORMS if form in row]
    if len(forms) != 1 or not row.keys().isdisjoint(("form", "count")):
        raise OptionError(f"{where} must say how much there is by exactly one of {', '.join(FORMS)}")
    row["form"], row["count"] = forms[0], row.pop(forms[0])
    if row["form"] == GANGS:
        row.setdefault("strategy", GROUP_STRATEGIES[0])
    work: Work = _record(Work, row, where)
    if bool(work.bundles) != (work.form == GANGS):
        raise OptionError(f"{where}: gangs have bundles, each with its resources, and nothing else has")
    if work.form == GANGS and work.strategy not in GROUP_STRATEGIES:
        strategies = ", ".join(GROUP_STRATEGIES)
        raise OptionError(f"{where}: the strategy of gangs must be one of {strategies}, not {work.strategy!r}")
    if work.blocked and work.form != TASKS:
        raise OptionError(f"{where}: only tasks wait inside get; {work.form} have no blocked")
    times = work.arrival.numbers.get("times")
    if times is not None and len(times) != work.count:
        raise OptionError(f"{where}: arrival has {len(times)} times for {work.count} {work.form}; give one for each")
    return work


def _record(made: type, row: Mapping[str, Any], where: str) -> Any:
    """Make a dataclass from a table, each value checked by its name."""
    known = {field.name: field for field in fields(made)}
    for key in row:
        if key not in known:
            raise OptionError(f"{where}: there is no key {key!r}{nearest(key, known)}; there are {', '.join(known)}")
    missing = [key for key, field in known.items() if key not in row and _is_required(field)]
    if missing:
        raise OptionError(f"{where} lacks {', '.join(missing)}")
    values = {}
    for key, value in row.items():
        expected, understand = VALUES[key]
        try:
            values[key] = understand(value)
        except (TypeError, ValueError, KeyError) as error:
            raise OptionError(f"{where}: {key} must be {expected}, not {value!r}") from error
    return made(**values)


def _is_required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _check_whole(load: Load, where: str) -> None:
    """Refuse what only the whole load shows."""
    for key, names in (("nodes", [kind.kind for kind in load.nodes]), ("work", [work.name for work in load.work])):
        if not names:
            raise OptionError(f"{where}: there must be at least one entry in {key}")
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise OptionError(f"{where}: two entries in {key} are called {double!r}; give each a name of its own")
    kinds = [kind.kind for kind in load.nodes]
    for number, change in enumerate(load.changes):
        if change.kind and change.kind not in kinds:
            hint = nearest(change.kind, kinds) or f"; there are {', '.join(kinds)}"
            raise OptionError(f"{where}: changes[{number}]: there is no kind of node {change.kind!r}{hint}")
        if change.action == SET_RESOURCE and not change.resource:
            raise OptionError(f"{where}: changes[{number}]: {SET_RESOURCE} needs resource, the name of what is set")


# -- writing -------------------------------------------------------------------------------------------------------


def _plain(record: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if value == default or field.name in _LISTS:
            continue
        if isinstance(value, Distribution):
            value = {DISTRIBUTIONS[field.name][0]: value.word, **value.numbers}
        data[field.name] = value
    return data
