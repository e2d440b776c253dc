"""Records what a policy does after a training, or during one, as a file of D4RL, to try offline algorithms on it.

    python -m kernel_rllib.examples.record_dataset mixed.hdf5 --steps 10000 --goes-on
    python -m kernel_rllib.examples.record_dataset medium.hdf5 --train-steps 2000 --steps 10000
    python -m kernel_rllib.examples.record_dataset swings.hdf5 --scripted --steps 10000

The first has all that SAC did in its first 10,000 steps on Pendulum; the second what a half-trained policy does. The
third is made in a second: a controller swings it up in half of the episodes, and in others torques are random.
`input_="mixed.hdf5"` reads it, of any algorithm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.experiments.swing_up_input import swing_ups
from kernel_rllib.experiments.trained_policy_input import recorded
from kernel_rllib.offline.hdf5_files import hdf5_library

ARRAYS = {
    columns.OBS: "observations",
    columns.NEXT_OBS: "next_observations",
    columns.ACTIONS: "actions",
    columns.REWARDS: "rewards",
    columns.TERMINATEDS: "terminals",
    columns.TRUNCATEDS: "timeouts",
}
"""The names of columns in files of D4RL."""


def write_d4rl(path: str, steps: Batch) -> None:
    """Write steps, episode after episode, as a file of D4RL.

    Raises:
        MissingDependencyError: If h5py is not installed.
    """
    found = dict(steps)
    breaks = np.append(np.diff(found[columns.EPS_ID]) != 0, True)  # Where recording stopped, an episode is cut off.
    found[columns.TRUNCATEDS] = (found[columns.TRUNCATEDS] | breaks) & ~found[columns.TERMINATEDS]
    with hdf5_library().File(path, "w") as file:
        for column, name in ARRAYS.items():
            file.create_dataset(name, data=found[column], compression="gzip")


def main(argv: Sequence[str] | None = None) -> int:
    """Record as the arguments say, and return how many steps there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the file")
    parser.add_argument("--experiment", default="sac-pendulum-v1", help="a tuned experiment: rllib example list")
    parser.add_argument("--train-steps", type=int, default=0, help="train so many steps before anything is recorded")
    parser.add_argument("--steps", type=int, default=10_000, help="record so many steps, or a few more")
    parser.add_argument("--goes-on", action="store_true", help="train while recording")
    parser.add_argument("--scripted", action="store_true", help="let no policy act, but a controller of Pendulum")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all that is drawn")
    given = parser.parse_args(argv)
    if given.scripted:
        steps = concatenated(swing_ups(given.seed, -(-given.steps // 200)))
        assert isinstance(steps, Batch)
    else:
        steps = recorded(given.seed, given.experiment, given.train_steps, given.steps, given.goes_on)
    write_d4rl(given.path, steps)
    episodes = len(np.unique(steps[columns.EPS_ID]))
    total = float(steps[columns.REWARDS].sum()) / episodes
    sys.stdout.write(f"{given.path}: {steps.count} steps of {episodes} episodes, whose mean return is {total:.1f}\n")
    return steps.count


if __name__ == "__main__":
    main()
