"""Start workers: prepare their environments, then have the template fork them."""

from __future__ import annotations

from collections.abc import Callable

from kernel_processes.node.log_service import LogService
from kernel_processes.node.template_link import TemplateLink
from kernel_processes.node.worker_pool import StartWorker, WorkerPool
from kernel_processes.node.worker_surroundings import WorkerSurroundings
from kernel_processes.system.descriptor_limit import check_room, describe_shortage
from kernel_processes.transport.reactor import Reactor
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError
from kernel_spec.ids import ProcessId


class WorkerForks:
    """Asks the template for the workers that the pool wants. Runs in the agent's loop."""

    def __init__(self, pool: WorkerPool, surroundings: WorkerSurroundings, logs: LogService, reactor: Reactor) -> None:
        self._pool = pool
        self._surroundings = surroundings
        self._logs = logs
        self._reactor = reactor
        self.template: TemplateLink | None = None

    @property
    def template_pid(self) -> int:
        """The process id of the template, 0 without one."""
        return self.template.pid if self.template is not None else 0

    def start(
        self,
        step: StartWorker,
        on_environment_failed: Callable[[ProcessId, RuntimeEnvError], None],
        on_fork_failed: Callable[[ProcessId, str], None],
    ) -> None:
        """Start a worker once everything that its environment is made of is on this node.

        One of the two callbacks is called, with a reason, when it can't be. The template reports everything else.
        """

        def ready(made: WorkerStart | RuntimeEnvError) -> None:
            if step.worker not in self._pool.workers:
                return  # The worker is not wanted any more.
            if isinstance(made, RuntimeEnvError):
                on_environment_failed(step.worker, made)
            elif shortage := self._fork(step, made):
                on_fork_failed(step.worker, shortage)

        self._surroundings.prepare(step.key[1], ready)

    def _fork(self, step: StartWorker, environment: WorkerStart) -> str:
        """Ask the template for a worker; return why that can't be done, nothing if it is."""
        worker = self._surroundings.of(step.worker, step.key, environment)
        try:
            joining = sum(worker.peer is None for worker in self._pool.workers.values())
            check_room(self._reactor.watched + joining)
            descriptors = self._logs.open(step.worker)
        except OSError as error:
            return describe_shortage(error)
        assert self.template is not None
        self.template.fork(worker, descriptors)
        return ""
