"""The parts of a run, from its plan: specifications with their trainables, search algorithm, scheduler and loop."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from typing import Any

from kernel_runs.arguments import ArgumentError, check_whole
from kernel_runs.reports import flatten
from kernel_runs.settings.run import FailureConfig
from kernel_runs.storage.directories import written_as
from kernel_runs.storage.places import check_name, results_directory, unused_name
from kernel_runs.trainable.function import FunctionTrainable
from kernel_runs.trainable.registry import find_trainable, know_trainable, name_of
from kernel_tune.errors import TuneError
from kernel_tune.execution.generation import SearchGenerator, Several, TrialMaker
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.plan import ExperimentPlan, RunPlan
from kernel_tune.execution.resuming import parse_resume
from kernel_tune.execution.seeds import Seeds
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.execution.wrapped_algorithm import WrappedAlgorithm
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.searchers.base import Searcher
from kernel_tune.storage.experiment_files import newest_of


def space_of(given: Any) -> dict[str, Any]:
    """Return a search space: a dict, an empty one for None, or the `to_dict()` of a config as RLlib has them.

    Raises TypeError for anything else.
    """
    if given is None:
        return {}
    made = given.to_dict() if callable(getattr(given, "to_dict", None)) and not isinstance(given, type) else given
    if not isinstance(made, dict):
        raise TypeError(f"the search space is {given!r}: it is a dict of what each trial gets as its config")
    return made


def make_spec(plan: ExperimentPlan, run: RunPlan) -> tuple[ExperimentSpec, Any]:
    """Return the specification of an experiment, and its trainable. Raises TuneError that names an invalid argument."""
    trainable_name = name_of(plan.trainable)
    if not isinstance(plan.trainable, str):
        know_trainable(trainable_name, plan.trainable)  # so that trials of it can be added by name
    trainable = find_trainable(trainable_name)
    is_function = issubclass(trainable, FunctionTrainable)
    checkpoints = plan.checkpoints.made_for(trainable, trainable_name)
    check_whole("tune", "num_samples", plan.num_samples, least=-1)
    check_whole("tune", "max_failures", plan.max_failures, least=-1)
    FailureConfig(plan.max_failures, plan.fail_fast)  # raises if they are invalid
    space = space_of(plan.config)
    if plan.upload_dir is not None and not isinstance(plan.upload_dir, (str, os.PathLike)):
        raise ArgumentError(
            f"tune: upload_dir is {plan.upload_dir!r}, but must be a path or an address such as s3://..."
        )
    root = os.path.abspath(os.path.expanduser(plan.local_dir)) if plan.local_dir else results_directory()
    name = plan.name
    if not name and parse_resume(run.resume).source == "LOCAL":
        name = newest_of(root, trainable_name) or trainable_name
    if name:
        check_name(root, name)
    name = name or unused_name(root, f"{trainable_name}_{time.strftime('%Y-%m-%d_%H-%M-%S')}")
    spec = ExperimentSpec(
        name=name,
        trainable_name=trainable_name,
        local_dir=os.path.join(root, name),
        trainable=trainable,
        space=space,
        num_samples=plan.num_samples,
        stop=flatten(dict(plan.stop)) if isinstance(plan.stop, Mapping) else {},
        resources=plan.resources,
        checkpoints=checkpoints,
        max_failures=plan.max_failures,
        fail_fast=bool(plan.fail_fast),
        raises=plan.fail_fast == "raise",
        export_formats=list(plan.export_formats or ()),
        restore_path=written_as(os.path.expanduser(plan.restore)) if plan.restore else "",
        upload_dir=f"{os.fspath(plan.upload_dir).rstrip('/')}/{name}" if plan.upload_dir else "",
        metric=run.metric,
        mode=run.mode,
        trial_name_creator=plan.trial_name_creator,
        trial_dirname_creator=plan.trial_dirname_creator,
        is_function=is_function,
    )
    return spec, trainable


def own_name(name: str, trainable: Any, others: Mapping[str, Any]) -> str:
    """Return the name of a trainable, with a number if another trainable of the run has that name."""
    for number in itertools.count(1):
        own = name if number == 1 else f"{name}_{number}"
        other = others.get(own)
        if other is None or _is_same(other, trainable):
            break
    if own != name:
        know_trainable(own, trainable)
    return own


def _is_same(one: Any, other: Any) -> bool:
    if issubclass(one, FunctionTrainable) and issubclass(other, FunctionTrainable):
        return one.function is other.function
    return one is other


def make_loop(plan: RunPlan, specs: list[ExperimentSpec]) -> TrialLoop:
    """Return the loop of a run, with its search algorithm and scheduler. Raises TypeError if one has a wrong type."""
    seeds = Seeds.of(plan.seed)
    algorithm = _algorithm(plan, specs, TrialMaker(seeds.ids), seeds)
    scheduler = _scheduler(plan, seeds.scheduler)
    return TrialLoop(specs, algorithm, scheduler, plan.max_concurrent)


def _algorithm(plan: RunPlan, specs: list[ExperimentSpec], maker: TrialMaker, seeds: Seeds) -> SearchAlgorithm:
    given = plan.search_alg
    if isinstance(given, str):
        from kernel_tune.searchers import create_searcher  # here: it needs numpy, which grids and samples do not

        given = create_searcher(given, seed=seeds.configurations)
    if isinstance(given, SearchAlgorithm):
        given.set_search_properties(plan.metric, plan.mode, specs[0].space)
        return WrappedAlgorithm(given, specs, maker)
    if given is None:
        from kernel_tune.searchers.basic_variant import BasicVariantGenerator  # see above

        parts = [
            SearchGenerator(
                BasicVariantGenerator(
                    random_state=seeds.configurations + number,
                    functions_seed=None if seeds.functions is None else seeds.functions + number,
                ),
                spec,
                maker,
            )
            for number, spec in enumerate(specs)
        ]
        return parts[0] if len(parts) == 1 else Several(parts, plan.concurrent)
    if not isinstance(given, Searcher):
        raise TypeError(f"search_alg is {given!r}: it is a tune Searcher, a SearchAlgorithm or the name of one")
    if len(specs) > 1:
        raise TuneError("a searcher works for one experiment at a time: run them one after the other")
    if plan.max_concurrent:
        given.set_max_concurrency(plan.max_concurrent)
    return SearchGenerator(given, specs[0], maker)


def _scheduler(plan: RunPlan, seed: int) -> TrialScheduler:
    given = plan.scheduler
    if isinstance(given, str):
        from kernel_tune.schedulers import create_scheduler  # here: only for names

        given = create_scheduler(given)
    if given is None:
        from kernel_tune.schedulers import FIFOScheduler  # see above

        given = FIFOScheduler()
    if not isinstance(given, TrialScheduler):
        raise TypeError(f"scheduler is {given!r}: it is a tune TrialScheduler or the name of one")
    if not given.set_search_properties(plan.metric, plan.mode, seed=seed):
        raise ValueError(
            f"{type(given).__name__} was made with a metric or mode of its own, and the run has another "
            f"({plan.metric!r}, {plan.mode!r}): give them in one place"
        )
    return given
