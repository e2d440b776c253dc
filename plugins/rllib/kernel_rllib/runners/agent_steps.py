"""The steps of agents while they are made, and the fragment that becomes of them.

A step of an agent begins with what it saw and did, and lasts until it sees again, or its episode is over. What it is
rewarded meanwhile, whoever acts, is the reward of that step. A step that is not over at the end of a sample is in the
next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment, empty_ends

OPEN, DONE, TERMINATED, TRUNCATED, VOID = range(5)
"""The states of a step. A void step is one of an environment that failed."""
_STATE = "state."


class AgentSteps:
    """Steps of the lanes of one module, in the order in which they began."""

    def __init__(self) -> None:
        """Begin without any."""
        self._blocks: list[dict[str, Array]] = []
        self._positions: list[int] = []
        self._rewards: list[float] = []
        self._fates: list[int] = []
        self._final_obs: dict[int, Array] = {}
        self._open: dict[int, int] = {}

    @property
    def open_lanes(self) -> list[int]:
        """Return the positions of the lanes that have begun a step, which is not over."""
        return list(self._open)

    def begin(self, positions: Sequence[int], chosen: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Write what lanes see and do.

        Args:
            positions: The positions of the lanes.
            chosen: Columns [N, ...], among them `obs` and `actions`.
            state: The state of a recurrent module before the step, arrays [N, ...] by name.
        """
        self.write(chosen, state)
        for position in positions:
            self.open(position)

    def open(self, position: int) -> None:
        """Let a step of a lane begin, whose columns are yet to be written, in the order of steps."""
        self._open[position] = len(self._positions)
        self._positions.append(position)
        self._rewards.append(0.0)
        self._fates.append(OPEN)

    def write(self, chosen: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Write the columns of the next steps that have none; see `begin`."""
        self._blocks.append({**chosen, **{f"{_STATE}{name}": value for name, value in state.items()}})

    def reward(self, position: int, reward: float) -> None:
        """Add to what the step that is not over has brought."""
        self._rewards[self._open[position]] += reward

    def end(self, position: int, fate: int, final_obs: Array | None = None) -> None:
        """Write that the step of a lane is over, and what was seen where an episode ended; None: what was last."""
        step = self._open.pop(position)
        self._fates[step] = fate
        if fate != DONE:
            self._final_obs[step] = self._columns_of([step])[columns.OBS][0] if final_obs is None else final_obs

    def drop_all(self) -> None:
        """Forget all steps."""
        self.__init__()  # type: ignore[misc]

    def open_of(self, position: int) -> dict[str, Any]:
        """Return what is written of the step of a lane that is not over; nothing if there is none."""
        if position not in self._open:
            return {}
        step = self._open[position]
        return {"reward": self._rewards[step], "columns": {k: v[0] for k, v in self._columns_of([step]).items()}}

    def set_open(self, position: int, state: Mapping[str, Any]) -> None:
        """Go on with what `open_of` returned."""
        if not state:
            return
        self._blocks.append({name: np.asarray(value)[None] for name, value in state["columns"].items()})
        self.open(position)
        self.reward(position, float(state["reward"]))

    def take(
        self,
        numbers: Array,
        last_obs: Array,
        *,
        recorded: Callable[[Mapping[str, Array]], Mapping[str, Array]],
        clip_rewards: Callable[[Array], Array] | None,
        version: int,
    ) -> Fragment | None:
        """Return all steps that are over as a fragment, and keep the others; None if there are none to learn from.

        Args:
            numbers: The numbers of all lanes, by position [L].
            last_obs: The last observation of each lane [L, ...], which is in no step yet.
            recorded: Gives further columns of steps.
            clip_rewards: Gives the rewards that are learned from; None: the same.
            version: The version of the weights that chose the actions.
        """
        fates = np.array(self._fates, np.int64)
        over = np.flatnonzero(fates != OPEN)
        if not len(over):
            return None
        every = self._columns_of(None)
        if (fates[over] == VOID).all():
            self._keep_open(every)
            return None
        here = {name: column[over] for name, column in every.items()}
        rewards = np.array(self._rewards, np.float64)[over].astype(np.float32)
        here[columns.REWARDS] = rewards if clip_rewards is None else clip_rewards(rewards)
        here[columns.TERMINATEDS] = fates[over] == TERMINATED
        here[columns.TRUNCATEDS] = (fates[over] == TRUNCATED) | (fates[over] == VOID)
        here |= recorded(here)
        order = np.argsort(numbers)
        place = np.empty(len(numbers), np.int64)
        place[order] = np.arange(len(numbers))
        lanes = place[np.array(self._positions, np.int64)[over]]
        rows = _counted(lanes)
        shape = (int(rows.max()) + 1, len(numbers))
        for position, step in self._open.items():
            last_obs[position] = every[columns.OBS][step]
        laid = {name: _laid(column, rows, lanes, shape) for name, column in here.items()}
        valid = np.zeros(shape, bool)
        valid[rows, lanes] = fates[over] != VOID
        made = Fragment(
            columns={name: column for name, column in laid.items() if not name.startswith(_STATE)},
            last_obs=last_obs[order],
            **self._finals(over, rows, lanes, last_obs),
            lanes=numbers[order],
            weights_version=version,
            valid=None if valid.all() else valid,
            state_in={name[len(_STATE) :]: column for name, column in laid.items() if name.startswith(_STATE)},
        )
        self._keep_open(every)
        return made

    def _finals(self, over: Array, rows: Array, lanes: Array, like: Array) -> dict[str, Array]:
        """Return where episodes ended, and what was seen there, by row and then lane."""
        found = [(int(rows[at]), int(lanes[at]), step) for at, step in enumerate(over) if step in self._final_obs]
        if not found:
            final_at, final_obs = empty_ends(like.shape[1:], like.dtype)
            return {"final_at": final_at, "final_obs": final_obs}
        found.sort()
        return {
            "final_at": np.array([pair[:2] for pair in found], np.int64),
            "final_obs": np.stack([self._final_obs[step] for *_, step in found]),
        }

    def _keep_open(self, every: Mapping[str, Array]) -> None:
        lanes, steps = list(self._open), list(self._open.values())
        rewards = [self._rewards[step] for step in steps]
        self.drop_all()
        if lanes:
            kept = {name: column[steps] for name, column in every.items()}
            self.begin(lanes, kept, {})
            self._rewards = rewards

    def _columns_of(self, steps: Sequence[int] | None) -> dict[str, Array]:
        """Return the columns of some steps, or of all."""
        if steps is not None and len(steps) == 1:
            at = steps[0]
            for block in self._blocks:
                count = len(block[columns.OBS])
                if at < count:
                    return {name: column[at : at + 1] for name, column in block.items()}
                at -= count
        joined = {name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}
        return joined if steps is None else {name: column[list(steps)] for name, column in joined.items()}


def _counted(lanes: Array) -> Array:
    """Return which step of its lane each is, from 0, for lanes [K] of steps in order."""
    order = np.argsort(lanes, kind="stable")
    ordered = lanes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    rows = np.empty(len(lanes), np.int64)
    lengths = np.diff(np.concatenate([starts, [len(lanes)]]))
    rows[order] = np.arange(len(lanes)) - np.repeat(starts, lengths)
    return rows


def _laid(column: Array, rows: Array, lanes: Array, shape: tuple[int, int]) -> Array:
    """Return [T, L, ...] with the entries of a column [K, ...] at their rows and lanes, and zeros elsewhere."""
    laid = np.zeros((*shape, *column.shape[1:]), column.dtype)
    laid[rows, lanes] = column
    return laid
