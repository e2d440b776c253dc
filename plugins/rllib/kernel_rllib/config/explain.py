"""Explain a config: each value, where it was set, and what an iteration costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kernel_rllib.config.claims import same
from kernel_rllib.config.fields import Field
from kernel_rllib.config.multi_agent_setup import MultiAgentSetup
from kernel_rllib.config.replay_config import ReplayBufferConfig
from kernel_rllib.config.settings import Settings


class Row(NamedTuple):
    """Explains one setting: its value, its origin, and its meaning."""

    section: str
    name: str
    value: Any
    set_by: str
    is_default: bool
    doc: str


class Cost(NamedTuple):
    """Describes one cost of a config: an amount, and how it comes about."""

    name: str
    amount: str
    because: str


class Explanation:
    """All settings of a config and what it costs. As text: what isn't a default, and the costs."""

    def __init__(self, title: str, rows: list[Row], costs: list[Cost]) -> None:
        """Keep both."""
        self.title = title
        self.rows = rows
        self.costs = costs

    def __getitem__(self, name: str) -> Row:
        """Return the row of a setting. Raises `KeyError` where there is none."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def text(self, *, everything: bool = False) -> str:
        """Return it for people, with all defaults too if `everything`."""
        chosen = [row for row in self.rows if everything or not row.is_default]
        lines = [self.title]
        for section in dict.fromkeys(row.section for row in chosen):
            lines += ["", f"{section}:", *_table((row for row in chosen if row.section == section), everything)]
        width = max(len(cost.name) for cost in self.costs)
        amounts = max(len(cost.amount) for cost in self.costs)
        costs = [f"  {cost.name:{width}}  {cost.amount:{amounts}}  {cost.because}".rstrip() for cost in self.costs]
        return "\n".join([*lines, "", "costs:", *costs])

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def explained(config: MultiAgentSetup) -> Explanation:
    """Return all settings of a config with who has set them, and what it costs."""
    rows: list[Row] = []
    for name, field in type(config).fields.items():
        value = getattr(config, name)
        if isinstance(value, Settings) and field.nested is not None:
            rows += _rows_of_part(config, name, value)
        else:
            rows.append(_row(config, name, field.section))
    names = (name for name in config.set_values() if name not in type(config).fields and not name.startswith("_"))
    rows += [Row("of your own", name, config[name], _set_by(config, name), False, "") for name in names]
    return Explanation(f"{config.title}, defaults of {_called(config.generation)}", rows, costs_of(config))


def costs_of(config: MultiAgentSetup) -> list[Cost]:
    """Return what a config costs: steps, processors, what they compute in, memory."""
    return [_steps(config), *_processors(config), _learns_in(config), *_replay(config)]


def _steps(config: MultiAgentSetup) -> Cost:
    fragment, copies = config.get_rollout_fragment_length(), config.total_envs
    steps = config.steps_per_iteration
    rounds = steps // (fragment * copies)
    because = f"{rounds} x {fragment} steps in {copies} environment{'s' if copies > 1 else ''}"
    if config.min_sample_timesteps_per_iteration:
        because += f", at least min_sample_timesteps_per_iteration={config.min_sample_timesteps_per_iteration}"
    if config.min_time_s_per_iteration:
        because += f", and as many as fit into min_time_s_per_iteration={config.min_time_s_per_iteration}"
    return Cost("env steps an iteration", f"{steps:,}", because)


def _processors(config: MultiAgentSetup) -> list[Cost]:
    bundles = config.resource_bundles()
    runners = len(bundles) - 1 - config.num_learners
    because = f"the algorithm, {runners} runners, {config.num_learners} learners"
    found = [Cost("CPUs", f"{sum(bundle.get('CPU', 0) for bundle in bundles):g}", because)]
    gpus = sum(bundle.get("GPU", 0) for bundle in bundles)
    return [*found, Cost("GPUs", f"{gpus:g}", because)] if gpus else found


def _learns_in(config: MultiAgentSetup) -> Cost:
    """Return which library learns, and why; `algorithms.models.framework_of` decides by the module that is made."""
    asked = config.framework_str
    if asked in ("numpy", "torch"):
        return Cost("learns in", asked, f"framework={asked!r}")
    if len(getattr(config.observation_space, "shape", None) or ()) == 3:
        return Cost("learns in", "torch", f"framework={asked!r}: observations are images, whose convolutions need it")
    because = "torch is no quicker in one thread; it is taken for images and for models in torch"
    return Cost("learns in", "numpy", f"framework={asked!r}: {because}")


def _replay(config: MultiAgentSetup) -> list[Cost]:
    buffer = config.__dict__.get("replay_buffer_config") or getattr(config, "replay_buffer_config", None)
    if not isinstance(buffer, ReplayBufferConfig) or not isinstance(buffer.capacity, int):
        return []
    observation, action = bytes_of(config.observation_space), bytes_of(config.action_space)
    if observation is None or action is None:
        because = f"capacity={buffer.capacity:,} steps; how large one is shows when the environment's spaces are known"
        return [Cost("replay", "unknown", because)]
    each = 2 * observation + action + 4 + 2
    because = f"{buffer.capacity:,} steps of {each} bytes: two observations, an action, a reward, two flags"
    return [Cost("replay", _size(buffer.capacity * each), because)]


def bytes_of(space: Any) -> int | None:
    """Return how many bytes a value of a space takes in arrays, or None where the space isn't known."""
    inside = getattr(space, "spaces", None)
    if inside is not None:
        sizes = [bytes_of(each) for each in (inside.values() if isinstance(inside, Mapping) else inside)]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None:
        return None
    size = int(dtype.itemsize)
    for length in shape:
        size *= int(length)
    return size


def _row(config: Settings, name: str, section: str) -> Row:
    is_default = config.is_default(name) and not config.is_set(name)
    return Row(section, name, getattr(config, name), _set_by(config, name), is_default, _doc(type(config).fields[name]))


def _rows_of_part(config: Settings, name: str, part: Settings) -> list[Row]:
    usual = config.usual_part(name)
    found = []
    for each, field in type(part).fields.items():
        value = getattr(part, each)
        is_usual = same(value, getattr(usual, each))
        set_by = (
            _set_by(part, each) if part.is_set(each) or not is_usual else f"default of {_called(config.generation)}"
        )
        section = type(config).fields[name].section
        found.append(Row(section, f"{name}.{each}", value, set_by, is_usual and not part.is_set(each), _doc(field)))
    return found


def _doc(field: Field[Any]) -> str:
    return f"{field.doc} No effect here: {field.inert}." if field.inert else field.doc


def _set_by(settings: Settings, name: str) -> str:
    origin = settings.origin(name)
    if origin is None:
        return f"default of {_called(settings.generation)}" if settings.is_default(name) else "changed in place"
    is_renamed = origin.spelling and origin.spelling.partition("/")[0] != name
    return f"{origin.by} as {origin.spelling}" if is_renamed else origin.by


def _called(generation: str) -> str:
    return "today" if generation == "current" else generation


def _table(rows: Iterable[Row], with_docs: bool) -> list[str]:
    shown = [(row.name, _short(row.value), row.set_by, row.doc) for row in rows]
    widths = [max(len(cells[column]) for cells in shown) for column in range(3)]
    lines = []
    for cells in shown:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells[:3], widths, strict=True))
        lines.append(f"  {line}  {cells[3]}".rstrip() if with_docs else f"  {line}".rstrip())
    return lines


def _short(value: Any, most: int = 48) -> str:
    text = getattr(value, "__qualname__", None) or repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"
