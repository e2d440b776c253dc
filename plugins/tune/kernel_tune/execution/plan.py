"""From what users say to a run: one place where everything comes together."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import kernel
from kernel_runs.arguments import ArgumentError, check_number, check_whole
from kernel_runs.callbacks import Callback
from kernel_runs.reports import flatten
from kernel_runs.settings.run import FailureConfig
from kernel_runs.storage.copies import SyncCallback, check_address, is_remote
from kernel_runs.storage.directories import written_as
from kernel_runs.storage.places import check_name, results_directory, unused_name
from kernel_runs.trainable.function import FunctionTrainable
from kernel_runs.trainable.registry import find_trainable, know_trainable, name_of
from kernel_tune.errors import TuneError
from kernel_tune.execution.generation import SearchGenerator, Several, TrialMaker
from kernel_tune.execution.given_algorithm import GivenAlgorithm
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.options import RunOptions
from kernel_tune.execution.resuming import Resume, parse_resume
from kernel_tune.execution.runner import Runner
from kernel_tune.execution.seeds import Seeds
from kernel_tune.execution.spec import CheckpointPolicy, ExperimentSpec
from kernel_tune.execution.transfers import make_transfer
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.searchers.base import Searcher
from kernel_tune.stoppers import Stopper, make_stopper
from kernel_tune.storage.experiment_files import ExperimentFiles, newest_of
from kernel_tune.storage.sync import copy_by_fsspec, exists, make_copy
from kernel_tune.trial import Trial


@dataclass
class ExperimentPlan:
    """One experiment as users describe it."""

    trainable: Any
    name: str | None = None
    config: Any = None
    num_samples: int = 1
    stop: Any = None
    resources: Any = None
    local_dir: str | None = None
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    max_failures: int = 0
    fail_fast: bool | str = False
    export_formats: Sequence[str] = ()
    restore: str | None = None
    upload_dir: str | None = None
    sync_to_driver: Any = None
    """How files that trials write on other machines come to the program's; see `transfers.make_transfer`."""
    loggers: Sequence[Any] | None = None
    """What logs its trials, None for what logs those of the run."""


@dataclass
class RunPlan:
    """One run: its experiments, and how they are searched and shown."""

    experiments: list[ExperimentPlan]
    search_alg: Any = None
    scheduler: Any = None
    metric: str | None = None
    mode: str | None = None
    max_concurrent: int = 0
    seed: int | None = None
    callbacks: Sequence[Callback] = ()
    hears_only: dict[int, set[str]] = field(default_factory=dict)
    """Of callbacks that hear of some experiments only, the names of these, by `id(callback)`."""
    report: Callable[[TrialLoop, float, bool], None] = lambda loop, seconds, done: None
    """Shows where the experiment stands: the loop, how many seconds it took, whether it has ended."""
    close: Callable[[], None] = lambda: None
    """Called when the run is over in whatever way."""
    resume: bool | str = False
    concurrent: bool = True
    with_server: bool = False
    server_port: int = 4321
    settings: dict[str, Any] = field(default_factory=dict)
    """What `Tuner.restore` needs."""
    syncer: Any = "auto"
    sync_period: float = 300.0
    options: RunOptions = field(default_factory=RunOptions)


@dataclass
class Outcome:
    """A run that has ended."""

    loop: TrialLoop
    directory: str
    interrupted: bool
    seconds: float
    trainables: dict[str, Any]

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they were made."""
        return self.loop.trials


def execute(plan: RunPlan) -> Outcome:
    """Run to the end. Starts a session of kernel if there is none. Raises TuneError for what can't be run."""
    resume = parse_resume(plan.resume)
    check_whole("tune", "max_concurrent_trials", plan.max_concurrent, least=0)
    specs: list[ExperimentSpec] = []
    trainables: dict[str, Any] = {}
    stoppers: dict[str, Stopper] = {}
    for experiment in plan.experiments:
        make_transfer(experiment.sync_to_driver)  # raises, before anything is written, for what can't be
        stopper = make_stopper(experiment.stop)
        spec, trainable = make_spec(experiment, plan)
        spec.trainable_name = _own_name(spec.trainable_name, trainable, trainables)
        specs.append(spec)
        trainables[spec.trainable_name] = trainable
        stoppers[spec.name] = stopper
    if len({spec.name for spec in specs}) < len(specs):
        raise TuneError("two experiments of a run have the same name: give each one of its own")
    begin_session()
    loop = _loop(plan, specs)
    files = ExperimentFiles(specs[0].local_dir)
    copies = _copies(plan, resume, specs)
    callbacks = [*plan.callbacks, *copies]
    options = replace(
        plan.options,
        sync_to_driver={
            spec.name: experiment.sync_to_driver for spec, experiment in zip(specs, plan.experiments, strict=True)
        },
    )
    runner = Runner(loop, files, trainables, stoppers, callbacks, options, plan.report, hears_only=plan.hears_only)
    resumes = _resumes(plan, resume, files)
    for callback in callbacks:
        callback.setup(
            stop=plan.experiments[0].stop,
            num_samples=specs[0].num_samples,
            total_num_samples=loop.algorithm.total_samples,
            local_dir=specs[0].local_dir,
            name=specs[0].name,
            metric=plan.metric,
            mode=plan.mode,
        )
    try:
        if resumes:
            runner.resume()
            if resume.drops:
                runner.drop_unfinished()
            if resume.retries:
                runner.retry_failed(resume.anew)
        else:
            runner.begin()
            files.write_settings(plan.settings)
        with _served(plan, runner):
            runner.run()
    finally:
        plan.close()
        files.close()
    for copy in copies:
        copy.after_end()
    return Outcome(runner.loop, files.directory, runner.interrupted, runner.used_seconds, trainables)


def placed(local_dir: str | None, storage_path: str | None, upload_dir: str | None) -> tuple[str | None, str | None]:
    """Return the directory below which experiments are (None: the usual one), and where they are copied to.

    `storage_path` may be either of these, and comes before `local_dir`.
    """
    if storage_path is not None and is_remote(storage_path):
        return None, storage_path
    return storage_path or local_dir, upload_dir


def begin_session() -> None:
    """Join the cluster that the environment names, or start a session, unless the program has one."""
    if kernel.is_initialized():
        return
    if os.environ.get("KERNEL_ADDRESS"):
        kernel.init()
    else:
        kernel.init(preload=["kernel_tune.trainable.actor"])


def _resumes(plan: RunPlan, resume: Resume, files: ExperimentFiles) -> bool:
    """Return whether the experiment goes on, and is not begun. Raises ValueError where it must, and is not there."""
    if resume.source == "PROMPT":
        return files.exist and _asks(f"Resume the experiment in {files.directory}?")
    if resume.source in ("", "AUTO"):
        return bool(resume.source) and files.exist
    if not files.exist:
        raise ValueError(
            f"resume is {plan.resume!r}, but there is no experiment in {files.directory}: check its name and "
            "directory, or say resume='AUTO' to begin one where there is none"
        )
    return True


def _copies(plan: RunPlan, resume: Resume, specs: Sequence[ExperimentSpec]) -> list[SyncCallback]:
    """Return what copies the experiments elsewhere, where that was asked for; fetch one that is to be resumed."""
    copy = make_copy(plan.syncer)
    copies = []
    for spec in specs:
        if not spec.upload_dir or copy is None:
            continue
        target = spec.upload_dir
        if copy is copy_by_fsspec and is_remote(target):
            check_address(target)
        is_lost = resume.source == "AUTO" and copy is copy_by_fsspec and not ExperimentFiles(spec.local_dir).exist
        if resume.source == "REMOTE" or (is_lost and exists(target)):
            os.makedirs(spec.local_dir, exist_ok=True)
            copy(target, spec.local_dir)
        copies.append(SyncCallback(spec.local_dir, target, copy, plan.sync_period))
    return copies


@contextlib.contextmanager
def _served(plan: RunPlan, runner: Runner) -> Iterator[None]:
    """Serve the experiment over HTTP, if that was asked for."""
    if not plan.with_server:
        yield
        return
    from kernel_tune.execution.additions import Served  # here: few experiments are served
    from kernel_tune.server.service import TuneServer, make_token, token_file, write_token

    token = make_token()
    server = TuneServer(Served(runner), token, plan.server_port)
    paths = [runner.files.path("server.token"), token_file(server.port)]
    for path in paths:
        write_token(path, token)
    server.start()
    try:
        yield
    finally:
        server.stop()
        for path in paths:
            os.remove(path)


def _asks(question: str) -> bool:
    import click  # here: few experiments ask

    return click.confirm(question, default=True)


# -- making ------------------------------------------------------------------------------------------------------------


def space_of(given: Any) -> dict[str, Any]:
    """Return a search space: a dict, nothing, or a config that says by `to_dict()` what it is, as those of RLlib do.

    Raises TypeError for anything else.
    """
    if given is None:
        return {}
    made = given.to_dict() if callable(getattr(given, "to_dict", None)) and not isinstance(given, type) else given
    if not isinstance(made, dict):
        raise TypeError(f"the search space is {given!r}: it is a dict of what each trial gets as its config")
    return made


def make_spec(plan: ExperimentPlan, run: RunPlan) -> tuple[ExperimentSpec, Any]:
    trainable_name = name_of(plan.trainable)
    if not isinstance(plan.trainable, str):
        know_trainable(trainable_name, plan.trainable)  # so that trials of it can be added by name
    trainable = find_trainable(trainable_name)
    is_function = issubclass(trainable, FunctionTrainable)
    checkpoints = plan.checkpoints.made_for(trainable, trainable_name)
    check_whole("tune", "num_samples", plan.num_samples, least=-1)
    check_whole("tune", "max_failures", plan.max_failures, least=-1)
    FailureConfig(plan.max_failures, plan.fail_fast)  # raises for what can't be
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


def _own_name(name: str, trainable: Any, others: Mapping[str, Any]) -> str:
    """Return the name of a trainable, with a number where another one of the run has that name."""
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


def _loop(plan: RunPlan, specs: list[ExperimentSpec]) -> TrialLoop:
    seeds = Seeds.of(plan.seed)
    algorithm = _algorithm(plan, specs, TrialMaker(seeds.ids), seeds)
    scheduler = _scheduler(plan, seeds.scheduler)
    return TrialLoop(specs, algorithm, scheduler, plan.max_concurrent)


def _algorithm(plan: RunPlan, specs: list[ExperimentSpec], maker: TrialMaker, seeds: Seeds) -> SearchAlgorithm:
    given = plan.search_alg
    if isinstance(given, str):
        from kernel_tune.searchers import create_searcher  # here: numpy, for who searches by it

        given = create_searcher(given, seed=seeds.configurations)
    if isinstance(given, SearchAlgorithm):
        given.set_search_properties(plan.metric, plan.mode, specs[0].space)
        return GivenAlgorithm(given, specs, maker)
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


def seconds_of(budget: float | timedelta | None) -> float | None:
    """Return a time budget in seconds."""
    if not isinstance(budget, timedelta) and budget is not None:
        check_number("tune", "time_budget_s", budget, least=0)
    return budget.total_seconds() if isinstance(budget, timedelta) else budget
