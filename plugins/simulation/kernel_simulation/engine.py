"""One run of one scheduler on one load."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from itertools import count, cycle
from random import Random
from time import perf_counter

from kernel_simulation.actors import Actors
from kernel_simulation.agenda import Agenda
from kernel_simulation.audit import Audit
from kernel_simulation.cluster import Cluster
from kernel_simulation.gangs import Gangs
from kernel_simulation.head import SimulatedHead
from kernel_simulation.load import ACTORS, GANGS, Load, Work
from kernel_simulation.measures import Remaining, Tally
from kernel_simulation.report import Report, make_report
from kernel_simulation.scalers import SimulatedScaler
from kernel_simulation.scaling import Scaling
from kernel_simulation.submitters import Submitter
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import amounts
from kernel_spec.scheduling import GroupRequest, LeaseRequest, Scheduler

PATIENCE_SECONDS = 60.0
"""Simulated seconds with ticks alone after which waiting work is given up."""
SCALED_PATIENCE_SECONDS = 3600.0
"""The same where an autoscaler may still get a machine, which waits for minutes before it tries again."""
_PROGRESS_STEPS = 20_000


class Simulation:
    """Everything that is simulated, ready to `run`. The same load, scheduler and `seed` give the same run.

    With `check`, every answer of the scheduler is compared with an account of its own, and its `validate` is called
    now and then. With a `scaler`, nodes come and go as it says, and the run goes on until its machines have gone.
    """

    def __init__(
        self,
        load: Load,
        make_scheduler: Callable[[], Scheduler],
        seed: int = 0,
        check: bool = False,
        scaler: SimulatedScaler | None = None,
    ) -> None:
        self.load = load
        self.seed = seed
        self.agenda = Agenda()
        self.head = SimulatedHead(make_scheduler, self.agenda, load.tick_seconds)
        if check:
            self.head.audit = Audit()
        self.cluster = Cluster(load.nodes, self.head, self.agenda, self._dice("nodes"))
        self.scaling = Scaling(scaler, self.head, self.cluster, self.agenda) if scaler is not None else None
        self.remaining = Remaining()
        self.tallies: list[Tally] = []
        self._jobs: dict[str, JobId] = {}
        self._numbers = count(1)
        self._validate_at = 1
        self._done_at = 0.0

    def run(self, until: float | None = None, show: Callable[[float, int], None] | None = None) -> Report:
        """Run until all work has ended or can't, or until the simulated second `until`, and return what was seen.

        `show` is called now and then with the simulated time and how much work is left. Raises PluginError when the
        scheduler raises or its invariants are broken, ContractError when it answers with what may not be.
        """
        begun = perf_counter()
        self.cluster.begin(self.load.changes)
        for work in self.load.work:
            self._begin_work(work)
        if self.scaling is not None:
            self.scaling.begin()
        self._go_on(until, show)
        report = make_report(
            self.load,
            self.seed,
            self.agenda,
            self.head,
            self.cluster,
            self.tallies,
            self.remaining,
            perf_counter() - begun,
        )
        if self.scaling is not None:
            pieces = sum(work.count for work in self.load.work)
            report = replace(report, makespan=self._done_at, scaling=self.scaling.report(self.tallies, pieces))
        if self.head.audit is not None:
            self._check_end()
        return report

    # -- time ------------------------------------------------------------------------------------------------------

    def _go_on(self, until: float | None, show: Callable[[float, int], None] | None) -> None:
        agenda, remaining = self.agenda, self.remaining
        patience = max(PATIENCE_SECONDS, 2 * self.cluster.longest_absence)
        patience = patience if self.scaling is None else SCALED_PATIENCE_SECONDS
        steps = 0
        while self._is_going_on() and (moment := agenda.next_moment()) is not None:
            if not agenda.to_come and moment > agenda.idle_since + patience:
                return
            if until is not None and moment > until:
                agenda.now = until
                return
            agenda.step()
            if self.scaling is not None:
                self.scaling.notice()
            if remaining.count:
                self._done_at = agenda.now
            steps += 1
            if not steps % _PROGRESS_STEPS and show is not None:
                show(agenda.now, remaining.count)
            if self.head.audit is not None:
                self._validate_now_and_then()

    def _is_going_on(self) -> bool:
        """Return whether there is work left, or a machine that is to be given back."""
        return bool(self.remaining.count or (self.scaling is not None and self.scaling.scaler.machines))

    def _validate_now_and_then(self) -> None:
        """Validate often in the beginning, ever more seldom later: it costs more the more there is."""
        if self.head.events >= self._validate_at:
            self._validate_at = self.head.events * 11 // 10 + 1
            self.head.validate()

    def _check_end(self) -> None:
        """Let idle leases end, and see that nothing is held any more."""
        while not self.remaining.count and self.agenda.to_come:
            self.agenda.step()
        self.head.validate()
        assert self.head.audit is not None
        held = len(self.head.granted) + len(self.head.groups)
        self.head.audit.check_empty(self.head.scheduler.snapshot(), held, f"scheduler {self.head.scheduler.name!r}")

    # -- work ------------------------------------------------------------------------------------------------------

    def _begin_work(self, work: Work) -> None:
        durations = work.duration.durations(work.count, self._dice(f"durations of {work.name}"))
        arrivals = work.arrival.arrivals(work.count, self._dice(f"arrivals of {work.name}"))
        tally = Tally(work, durations, arrivals, self.remaining)
        self.tallies.append(tally)
        if work.form == ACTORS:
            make_request = self._request_maker(work, self._processes(work)[0])
            actors = Actors(tally, self.head, self.agenda, make_request, self.load.grant_seconds)
            self._arrive(arrivals, actors.create)
        elif work.form == GANGS:
            process = self._processes(work)[0]
            make_group, make_lease = self._group_maker(work, process), self._bundle_maker(work, process)
            gangs = Gangs(tally, self.head, self.agenda, make_group, make_lease, self.load.grant_seconds)
            self._arrive(arrivals, gangs.create)
        else:
            self._begin_tasks(work, tally)

    def _begin_tasks(self, work: Work, tally: Tally) -> None:
        submitters = [
            Submitter(tally, self.head, self.agenda, self._request_maker(work, process), self.load.grant_seconds)
            for process in self._processes(work)
        ]
        turns = cycle(submitters)
        touched: dict[Submitter, None] = {}

        def submit(piece: int) -> None:
            submitter = next(turns)
            submitter.queue.append(piece)
            touched[submitter] = None

        def dispatch() -> None:
            for submitter in touched:
                submitter.dispatch()
            touched.clear()

        self._arrive(tally.arrivals, submit, dispatch)

    def _arrive(
        self, arrivals: array[float], submit: Callable[[int], None], dispatch: Callable[[], None] = lambda: None
    ) -> None:
        """Call `submit(piece)` for each piece when it comes, and `dispatch` after those that come at one moment."""

        def come(piece: int) -> None:
            now = self.agenda.now
            while piece < len(arrivals) and arrivals[piece] <= now:
                submit(piece)
                piece += 1
            dispatch()
            if piece < len(arrivals):
                self.agenda.at(arrivals[piece], come, piece)

        self.agenda.at(arrivals[0], come, 0)

    # -- processes and requests ------------------------------------------------------------------------------------

    def _processes(self, work: Work) -> list[tuple[JobId, ProcessId, NodeId]]:
        """Return job, id and node of each process of a class of work."""
        dice = self._dice(f"processes of {work.name}")
        job = self._jobs.setdefault(work.job, JobId(b"job" + len(self._jobs).to_bytes(5, "big")))
        return [(job, ProcessId(self._id(b"p")), self.cluster.any_node(dice)) for _ in range(work.processes)]

    def _request_maker(self, work: Work, process: tuple[JobId, ProcessId, NodeId]) -> Callable[[], LeaseRequest]:
        job, requester, origin = process
        wanted = amounts(work.resources)
        dice = self._dice(f"inputs of {requester.hex()}")
        for_actor = work.form == ACTORS

        def make_request() -> LeaseRequest:
            return LeaseRequest(
                LeaseId(self._id(b"l")),
                job,
                requester,
                wanted,
                work.name,
                work.strategy,
                work.hints,
                for_actor,
                origin=origin,
                locality={self.cluster.any_node(dice): work.input_bytes} if work.input_bytes else {},
                preemptible=work.preemptible,
            )

        return make_request

    def _group_maker(self, work: Work, process: tuple[JobId, ProcessId, NodeId]) -> Callable[[], GroupRequest]:
        job, _, origin = process
        bundles = tuple(amounts(bundle) for bundle in work.bundles)
        strategy = str(work.strategy)

        def make_group() -> GroupRequest:
            return GroupRequest(GroupId(self._id(b"g")), job, bundles, strategy, work.name, work.hints, origin)

        return make_group

    def _bundle_maker(
        self, work: Work, process: tuple[JobId, ProcessId, NodeId]
    ) -> Callable[[GroupRequest, int], LeaseRequest]:
        job, requester, origin = process

        def make_request(group: GroupRequest, bundle: int) -> LeaseRequest:
            return LeaseRequest(
                LeaseId(self._id(b"l")),
                job,
                requester,
                dict(group.bundles[bundle]),
                work.name,
                hints=work.hints,
                origin=origin,
                group=group.id,
                bundle=bundle,
                preemptible=work.preemptible,
            )

        return make_request

    def _id(self, prefix: bytes) -> bytes:
        return prefix + next(self._numbers).to_bytes(7, "big")

    def _dice(self, what: str) -> Random:
        return Random(f"{self.seed} {what}")
