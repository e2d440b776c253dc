"""Make an application in this process: each deployment once, without a session, a proxy or another process."""

from __future__ import annotations

import asyncio

from kernel_serve.api.declared import Application
from kernel_serve.api.graph import Bound, Flattening
from kernel_serve.context import ReplicaContext, enter_here
from kernel_serve.errors import DeployFailedError, DeploymentError
from kernel_serve.local.handle import LocalHandle
from kernel_serve.logs import logger
from kernel_serve.replica.user_code import UserCode
from kernel_serve.routing.loops import data_loop, in_data_loop
from kernel_serve.settings import DeploymentSettings
from kernel_serve.tracebacks import user_traceback

_log = logger()


def run_here(target: Application, name: str) -> LocalHandle:
    """Make the objects of an application in this process, and return a handle to its ingress.

    Coroutines run on a background event loop, plain functions in threads. Raises DeploymentError for an application
    that can't be made, and DeployFailedError with the traceback when a constructor raises.
    """
    if in_data_loop():
        raise DeploymentError("serve.run(_local_testing_mode=True) can't be called by what runs in that mode")
    building = _Building(name)
    ingress = building.add(target)
    asyncio.run_coroutine_threadsafe(building.construct(), data_loop()).result()
    return building.handle(ingress)


class LocalReplica:
    """Is the only replica of a deployment."""

    def __init__(self, application: str, deployment: str, code: UserCode, settings: DeploymentSettings) -> None:
        self.code = code
        self._settings = settings
        self.context = ReplicaContext(application, deployment, f"{application}#{deployment}#local")

    async def construct(self) -> None:
        """Make the object, and give it its `user_config`. Raises what the user's code raises."""
        enter_here(self.context)
        await self.code.construct()
        context = self.context
        self.context = ReplicaContext(context.app_name, context.deployment, context.replica_id, self.code.instance)
        enter_here(self.context)
        await self.code.reconfigure(self._settings.user_config, self.context.rank)


class _Building(Flattening):
    def __init__(self, application: str) -> None:
        super().__init__(application)
        self._replicas: dict[str, LocalReplica] = {}

    def handle(self, deployment: str) -> LocalHandle:
        return LocalHandle(deployment, self.application, self._replicas)

    def keep(self, bound: Bound) -> None:
        name, deployment, args, kwargs, settings = bound
        ignored = [each for each in ("runtime_env", "num_gpus") if settings.actor_options.get(each)]
        if ignored:
            _log.warning(f"deployment {name} runs in this process, without its {' and '.join(ignored)}")
        code = UserCode(deployment.func_or_class, args, kwargs, settings.max_ongoing_requests)
        self._replicas[name] = LocalReplica(self.application, name, code, settings)

    async def construct(self) -> None:
        """Make all objects, each after those whose handles it gets."""
        for name, replica in self._replicas.items():
            try:
                await asyncio.get_running_loop().create_task(replica.construct())
            except Exception as error:
                raise DeployFailedError(
                    f"application {self.application} could not be made: deployment {name} failed:\n"
                    f"{user_traceback(error)}"
                ) from error
