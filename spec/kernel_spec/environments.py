"""The environment contract: what one field of a `runtime_env` means, and what a worker that runs in it is given.

A builder is offered under the name of the field that it takes: `{"pip": PipEnvironment}` makes
`runtime_env={"pip": [...]}` possible. `check` and `prepare` are called in the program that gives the runtime_env (a
driver, or a worker whose task gives one), from any thread, and turn what was given into plain values, which JSON can
write. Those values travel to each node that starts a worker in the environment.

`packages` and `build` are called on the node. Where `build_seconds` is above 0, `build` runs in a child process of the
node's agent, once for each value, and may take that long; then the process and all that it has started are killed. The
builder is pickled for it. Where `build_seconds` is 0, `build` is called in the loop of the agent, for each worker, and
must do nothing but return.

What `build` writes to standard output and standard error goes to a log of the session, `environments.log`. What was
built stays until the builds of that field take more than `cache_bytes`; then those go that were used least recently,
but none in which a worker runs. All of it goes with the session.

What can't be done is said by `RuntimeEnvError`, whose message begins with the field, as `runtime_env['pip']`. Raised in
the program it reaches the caller at once, raised on a node it is the error of the tasks and actors that asked. Anything
else that is raised counts as a fault of the plugin and is reported with its lines. A failure is told, without another
attempt, to all who ask within the next seconds.

A task that gives a runtime_env runs in the environment around it as well: a field that both give has the task's value.

On conflict: two plugins that offer the same field are refused by name. On absence the field is unknown, and the error
says which fields there are and what would bring it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass

PACKAGE = "package:"
"""What the name of a package begins with; the digest of its content follows."""


@runtime_checkable
class Program(Protocol):
    """The program that gives a runtime_env, as a builder may use it."""

    def pack(self, path: str, below: str = "") -> str:
        """Send a file, or a directory without what the runtime_env `excludes`, and return the name of the package.

        The name is `package:` and the digest of the content, which is sent once in a session; such a name given as
        `path` is returned. On a node the package is a directory with what was in the directory, in a folder `below` if
        one is named; a file is there under its own name. Raises RuntimeEnvError for what can't be read or sent.
        """
        ...


@dataclass(frozen=True, slots=True)
class BuildPlace:
    """Where something is built on a node.

    `directory` is an empty directory of its own, and the one where the result will be used; "" where nothing is built.
    `package` returns, for a name that `packages` gave, the directory of that package.
    """

    directory: str
    package: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a worker that runs in an environment is given. Plain values.

    `variables` are environment variables, in which `${NAME}` stands for the one around the worker; those that the
    runtime_env gives itself come before. `paths` are put in front of `sys.path`. `directory` is the working directory,
    "" for the program's.

    `python` is the interpreter to run, "" for the node's. It must be of the node's Python version, and see what the
    node's sees. With an interpreter of its own a worker starts later, so it is a fork of the node's interpreter, as
    without, unless that has imported one of the top-level `modules` already: it would see what it had imported,
    and not what is in `paths`. Without `modules` it always runs the interpreter.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    directory: str = ""
    python: str = ""
    modules: tuple[str, ...] = ()


@runtime_checkable
class EnvironmentBuilder(Protocol):
    """Makes one field of a runtime_env come true. See the module's text."""

    field: str
    """The field, under which it is offered."""

    build_seconds: float
    """How long `build` may take in a process of its own; 0 where it does nothing but return, and needs none."""

    cache_bytes: float
    """How many bytes of what it has built a node keeps for those who come later."""

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError where `value`, which is not None, is of a wrong type or form. Looks at no files."""
        ...

    def prepare(self, value: Any, program: Program) -> Any:
        """Return what `value`, which was checked, means, as plain values that are the same for the same meaning.

        What it has returned may be given again, and then means the same. What means nothing (such as no packages at
        all) is returned as something false, and left out. Raises RuntimeEnvError.
        """
        ...

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return the names of the packages that `build` needs on the node, as `Program.pack` returned them."""
        ...

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Make on a node what `prepare` returned, and say what a worker in it is given. Raises RuntimeEnvError."""
        ...
