"""Execution of a plan: beginning or resuming its experiments, copying their files, serving them over HTTP."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import kernel
from kernel_runs.arguments import check_whole
from kernel_runs.storage.copies import SyncCallback, check_address, is_remote
from kernel_tune.errors import TuneError
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.plan import RunPlan
from kernel_tune.execution.resuming import Resume, parse_resume
from kernel_tune.execution.run_parts import make_loop, make_spec, own_name
from kernel_tune.execution.runner import Runner
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.execution.transfers import make_transfer
from kernel_tune.stoppers import Stopper, make_stopper
from kernel_tune.storage.experiment_files import ExperimentFiles
from kernel_tune.storage.sync import copy_by_fsspec, exists, make_copy
from kernel_tune.trial import Trial


@dataclass
class RunOutcome:
    """Describes a run that has ended."""

    loop: TrialLoop
    directory: str
    interrupted: bool
    seconds: float
    trainables: dict[str, Any]

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they were made."""
        return self.loop.trials


def execute(plan: RunPlan) -> RunOutcome:
    """Run to the end. Starts a session of kernel if there is none. Raises TuneError for an invalid plan."""
    resume = parse_resume(plan.resume)
    check_whole("tune", "max_concurrent_trials", plan.max_concurrent, least=0)
    specs: list[ExperimentSpec] = []
    trainables: dict[str, Any] = {}
    stoppers: dict[str, Stopper] = {}
    for experiment in plan.experiments:
        make_transfer(experiment.sync_to_driver)  # raises, before anything is written, if it is invalid
        stopper = make_stopper(experiment.stop)
        spec, trainable = make_spec(experiment, plan)
        spec.trainable_name = own_name(spec.trainable_name, trainable, trainables)
        specs.append(spec)
        trainables[spec.trainable_name] = trainable
        stoppers[spec.name] = stopper
    if len({spec.name for spec in specs}) < len(specs):
        raise TuneError("two experiments of a run have the same name: give each one of its own")
    begin_session()
    loop = make_loop(plan, specs)
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
    return RunOutcome(runner.loop, files.directory, runner.interrupted, runner.used_seconds, trainables)


def begin_session() -> None:
    """Join the cluster that the environment names, or start a session, unless the program has one already."""
    if kernel.is_initialized():
        return
    if os.environ.get("KERNEL_ADDRESS"):
        kernel.init()
    else:
        kernel.init(preload=["kernel_tune.trainable.actor"])


def _resumes(plan: RunPlan, resume: Resume, files: ExperimentFiles) -> bool:
    """Return whether the experiment is resumed. Raises ValueError if it must be, and does not exist."""
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
    """Return the callbacks that copy the experiments elsewhere, if requested. Fetch an experiment to be resumed."""
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
    """Serve the experiment over HTTP during a `with` block, if requested."""
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
