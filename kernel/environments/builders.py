"""The table of builders by the field of a runtime_env, and the error for an unknown field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kernel.environments.modules import PythonModules
from kernel.environments.variables import EnvironmentVariables
from kernel.environments.working_directory import WorkingDirectory
from kernel_spec.environments import EnvironmentBuilder
from kernel_spec.errors import KernelError, PluginNotFoundError, RuntimeEnvError

if TYPE_CHECKING:  # programs that name no plugin's field have none to manage
    from kernel.plugins.manager import PluginManager

KIND = "environment"
BUILT_IN: Mapping[str, Callable[[], EnvironmentBuilder]] = {
    "env_vars": EnvironmentVariables,
    "working_dir": WorkingDirectory,
    "py_modules": PythonModules,
}
"""The kernel's own fields, whose builders are found without the discovery of plugins."""

OTHER_FIELDS = ("excludes", "inherit")
"""Keys of a runtime_env that have no builder."""


class EnvironmentBuilders:
    """Makes each builder when its field is first met.

    `manager` is asked for the plugins when a field is met that the kernel itself does not take; None says that there
    are none. `where` says in errors where a plugin is looked for.
    """

    def __init__(self, manager: Callable[[], PluginManager | None], where: str = "here") -> None:
        self._manager = manager
        self._where = where
        self._builders: dict[str, EnvironmentBuilder] = {}

    def of(self, field: str) -> EnvironmentBuilder:
        """Return the builder of a field.

        Raises RuntimeEnvError when no builder takes the field, with the known fields, and when its plugin is broken.
        """
        builder = self._builders.get(field)
        if builder is None:
            builder = self._builders[field] = BUILT_IN[field]() if field in BUILT_IN else self._of_plugin(field)
        return builder

    def label(self, field: str) -> str:
        """Return the name of a field's builder for messages: "the environment 'pip' of the plugin 'x'"."""
        manager = None if field in BUILT_IN else self._manager()
        return f"the environment {field!r}" if manager is None else manager.label(self._builders[field])

    def _of_plugin(self, field: str) -> EnvironmentBuilder:
        manager = self._manager()
        if manager is None:
            raise RuntimeEnvError(_unknown_in_one_process(field))
        try:
            builder: EnvironmentBuilder = manager.make_many(KIND, [field])[0]
        except PluginNotFoundError:
            raise RuntimeEnvError(unknown_field(field, manager.offered(KIND), self._where)) from None
        except KernelError as error:
            raise RuntimeEnvError(f"runtime_env[{field!r}] can't be used {self._where}: {error}") from error
        return builder


def _unknown_in_one_process(field: str) -> str:
    from kernel.plugins.kinds import OFFICIAL
    from kernel_spec.nearest import nearest

    known = [*BUILT_IN, *OTHER_FIELDS]
    close = "" if (KIND, field) in OFFICIAL else nearest(field, known)
    if close:
        return f"runtime_env has no field {field!r}; did you mean {close!r}?"
    return (
        f"runtime_env has no field {field!r} in a session of one process; it has {', '.join(known)}; "
        "what plugins build is for workers: call init() without local_mode"
    )


def unknown_field(field: str, offered: Iterable[str], where: str = "here") -> str:
    """Return the message that no builder takes `field`: with a similar field, the known fields, or how to install it.

    `offered` are the fields that plugins take.
    """
    from kernel.installing import install_command
    from kernel.plugins.kinds import OFFICIAL
    from kernel_spec.nearest import nearest

    known = [*BUILT_IN, *OTHER_FIELDS, *(name for name in offered if name not in BUILT_IN)]
    text = f"runtime_env has no field {field!r}"
    if extra := OFFICIAL.get((KIND, field)):
        command = install_command(extra)
        how = f"to have it {where}: {command}" if command else f"the plugin {extra} brings it, which is not {where}"
        return f"{text}; it has {', '.join(known)}; {how}"
    close = nearest(field, known)
    return f"{text}; did you mean {close!r}?" if close else f"{text}; it has {', '.join(known)}"
