"""Making trials from the configurations that a searcher proposes."""

from __future__ import annotations

import copy
import os
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from kernel_runs.reports import Report, flatten
from kernel_runs.resources import make_request
from kernel_tune.errors import SearchSpaceError, TuneError
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.search_space.paths import has_choices
from kernel_tune.search_space.tags import evaluated_parameters, experiment_tag
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.searchers.base import FINISHED, Searcher
from kernel_tune.trial import Trial

_LONGEST_NAME = 100


class TrialMaker:
    """Gives trials their ids, names and directories. A seed makes the ids reproducible."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"trial ids {seed}")
        self._names: set[str] = set()
        self.count = 0

    def new_id(self) -> str:
        """Return an id for a new trial: eight hexadecimal digits."""
        return f"{self._random.getrandbits(32):08x}"

    def make(
        self, spec: ExperimentSpec, trial_id: str, config: dict[str, Any], evaluated: dict[str, Any] | None = None
    ) -> Trial:
        """Return a trial of an experiment with this configuration. `evaluated` are the values chosen in it."""
        if evaluated is None:
            evaluated = evaluated_parameters(spec.space, config)
        return self.complete(spec, Trial(spec.trainable_name, config, trial_id, evaluated_params=evaluated))

    def complete(self, spec: ExperimentSpec, trial: Trial) -> Trial:
        """Add to a trial what it lacks to be one of an experiment, and return it."""
        trial.trial_id = trial.trial_id or self.new_id()
        trial.index, trial.local_dir = self.count, spec.local_dir
        trial.experiment_tag = trial.experiment_tag or experiment_tag(self.count, trial.evaluated_params)
        trial.resources = spec.request_for(trial.config) if trial.resources is None else make_request(trial.resources)
        trial.extra["experiment"] = spec.name
        self.count += 1
        self._give_name(spec, trial)
        return trial

    def _give_name(self, spec: ExperimentSpec, trial: Trial) -> None:
        trial.name = trial.name or f"{spec.trainable_name}_{trial.trial_id}"
        if spec.trial_name_creator is not None:
            trial.name = _created("trial_name_creator", spec.trial_name_creator, trial)
        directory = f"{trial.name}_{trial.experiment_tag}" if trial.evaluated_params else trial.name
        if spec.trial_dirname_creator is not None:
            directory = _created("trial_dirname_creator", spec.trial_dirname_creator, trial)
            if os.path.sep in directory:
                raise TuneError(
                    f"trial_dirname_creator returned {directory!r} for trial {trial.name}: it is a name, not a path"
                )
        if not directory.strip("."):
            raise TuneError(f"the directory of a trial can't be called {directory!r}: return a name of letters")
        directory = re.sub(r"[^\w.,=+()\-\[\]@ ]+", "_", directory)[:_LONGEST_NAME]
        if directory in self._names:
            directory = f"{directory}_{trial.trial_id}"
        self._names.add(directory)
        trial.extra["directory"] = directory


def _created(argument: str, creator: Callable[[Trial], str], trial: Trial) -> str:
    """Return the name that a user's function gives a trial. Raises TuneError that names the function if it raises."""
    try:
        return str(creator(trial))
    except Exception as error:
        raise TuneError(f"{argument} raised {type(error).__name__} for trial {trial}: {error}") from error


class SearchGenerator(SearchAlgorithm):
    """Makes the trials of one experiment from the configurations of a searcher."""

    def __init__(self, searcher: Searcher, spec: ExperimentSpec, maker: TrialMaker) -> None:
        self.searcher = searcher
        self.spec = spec
        self._maker = maker
        self._finished = False
        self._made = 0
        self._own: set[str] = set()
        taken = searcher.set_search_properties(spec.metric, spec.mode, spec.space, num_samples=spec.num_samples)
        self._merges = not taken
        if not taken and has_choices(spec.space):
            raise SearchSpaceError(
                f"{type(searcher).__name__} has a search space of its own, and experiment {spec.name} has one as well "
                f"({', '.join(sorted(map(str, spec.space)))}): give one of them"
            )

    @property
    def metric(self) -> str:  # type: ignore[override]
        """The metric that is optimised."""
        return self.searcher.metric

    @property
    def total_samples(self) -> int | None:
        """The number of trials that there will be, or None if it is not known."""
        total = self.searcher.total_samples
        if total is not None:
            return total
        return self.spec.num_samples if self.spec.num_samples >= 0 else None

    def next_trial(self) -> Trial | None:
        """Return the next trial, or None if there is none at present."""
        if self.is_finished():
            return None
        if self._is_enough:
            self._finished = True
            return None
        trial_id = self._maker.new_id()
        config = self.searcher.suggest(trial_id)
        if config == FINISHED:
            self._finished = True
            return None
        if config is None:
            return None
        if not isinstance(config, dict):
            raise TuneError(
                f"{type(self.searcher).__name__}.suggest() returned an object of {type(config).__name__}, but must "
                "return a configuration (a dict), None while it has none to suggest, or Searcher.FINISHED"
            )
        evaluated = None
        if self._merges:
            evaluated = flatten(config)
            config = _merged(self.spec.space, config)
        self._made += 1
        self._own.add(trial_id)
        return self._maker.make(self.spec, trial_id, config, evaluated)

    def is_finished(self) -> bool:
        """Return whether there will be no further trial."""
        return self._finished or self._is_enough

    @property
    def _is_enough(self) -> bool:
        """Whether there are enough trials by `num_samples`. A searcher with a total of its own ends by itself."""
        return self.searcher.total_samples is None and 0 <= self.spec.num_samples <= self._made

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """Pass a result on to the searcher, if the trial is one of its own."""
        if trial_id in self._own:
            self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """Pass the end of a trial on to the searcher, if the trial is one of its own."""
        if trial_id in self._own:
            self._own.discard(trial_id)
            self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def on_pause(self, trial_id: str) -> None:
        """Pass a pause on to the searcher, if the trial is one of its own."""
        if trial_id in self._own:
            self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Pass the end of a pause on to the searcher, if the trial is one of its own."""
        if trial_id in self._own:
            self.searcher.on_unpause(trial_id)


class Several(SearchAlgorithm):
    """Makes the trials of several experiments: of each in turn if `concurrent`, else of one after another."""

    def __init__(self, parts: Sequence[SearchAlgorithm], concurrent: bool = True) -> None:
        self._parts = list(parts)
        self._concurrent = concurrent
        self._turn = 0

    def next_trial(self) -> Trial | None:
        """Return the next trial, or None if there is none at present."""
        for offset in range(len(self._parts)):
            index = (self._turn + offset) % len(self._parts) if self._concurrent else offset
            trial = self._parts[index].next_trial()
            if trial is not None:
                self._turn = index + 1
                return trial
        return None

    def is_finished(self) -> bool:
        """Return whether there will be no further trial."""
        return all(part.is_finished() for part in self._parts)

    def set_finished(self) -> None:
        """Make no further trial."""
        for part in self._parts:
            part.set_finished()

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """A running trial has reported."""
        for part in self._parts:
            part.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """A trial has ended."""
        for part in self._parts:
            part.on_trial_complete(trial_id, result=result, error=error)

    def on_pause(self, trial_id: str) -> None:
        """A scheduler has paused a trial."""
        for part in self._parts:
            part.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """A paused trial runs again."""
        for part in self._parts:
            part.on_unpause(trial_id)

    @property
    def total_samples(self) -> int | None:
        """The number of trials that there will be, or None if it is not known."""
        totals = [part.total_samples for part in self._parts]
        return None if None in totals else sum(filter(None, totals))


def _merged(constants: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return a proposed configuration, completed by the constants of the experiment."""
    merged = copy.copy(constants)
    for key, value in config.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged
