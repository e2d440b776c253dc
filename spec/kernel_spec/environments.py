"""The environment contract: a builder interprets one field of a `runtime_env`, and sets up workers for it.

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

A failure is a `RuntimeEnvError`, whose message begins with the field, as `runtime_env['pip']`. Raised in the program it
reaches the caller at once; raised on a node it is the error of the tasks and actors in that environment. Any other
exception counts as a fault of the plugin and is reported with its lines. For some seconds after a failure, requests for
the same environment fail with the same error, without another attempt.

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
"""Prefix of the name of a package; the digest of its content follows."""


@runtime_checkable
class Program(Protocol):
    """The services of the program that gives a runtime_env, for a builder."""

    def pack(self, path: str, below: str = "") -> str:
        """Send a file, or a directory without what the runtime_env `excludes`, and return the name of the package.

        The name is `package:` and the digest of the content, which is sent once in a session; such a name given as
        `path` is returned. On a node the package is a directory with what was in the directory, in a folder `below` if
        one is named; a file is there under its own name. Raises RuntimeEnvError for files that can't be read or sent.
        """
        ...


@dataclass(frozen=True, slots=True)
class BuildPlace:
    """The place of a build on a node.

    `directory` is an empty directory for this build, from which the result will be used; "" where nothing is built.
    `package(name)` returns the directory of a package that `packages` has named. `shared` are the directories through
    which the processes of the node reach each other, `directory` being in one of them: a worker that sees other files
    than its node must see these, at the same paths, and be able to write there.
    """

    directory: str
    package: Callable[[str], str]
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The settings of a worker that runs in an environment, as plain values.

    `variables` are environment variables, in which `${NAME}` stands for the value outside of the worker; variables of
    the runtime_env itself take precedence. `paths` are put in front of `sys.path`. `directory` is the working
    directory, "" for the program's.

    `python` is the interpreter to run, "" for the node's. It must be of the node's Python version, and see what the
    node's sees. An interpreter of its own takes longer to start, so the worker is a fork of the node's interpreter
    nevertheless, unless that has imported one of the top-level `modules` already: the worker would see that module
    instead of the one in `paths`. With empty `modules` it always runs the interpreter.

    `python` may also be a program that runs an interpreter elsewhere, such as in a container. It is run with the
    arguments, the variables and the open files of an interpreter, and has to hand them on. It stands for the worker:
    when it is killed, the worker has to end, and the other way round. The worker must see the node's processes under
    the same ids.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    directory: str = ""
    python: str = ""
    modules: tuple[str, ...] = ()


@runtime_checkable
class EnvironmentBuilder(Protocol):
    """Checks, prepares and builds one field of a runtime_env. See the module's text."""

    field: str
    """The field of the runtime_env, which is also the name of the offer."""

    build_seconds: float
    """Time limit in seconds for `build` in a process of its own; 0 if it returns at once and needs no process."""

    cache_bytes: float
    """Maximum size in bytes of the builds that a node keeps for later use."""

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError if `value`, which is not None, has a wrong type or form. Must not read files."""
        ...

    def prepare(self, value: Any, program: Program) -> Any:
        """Convert `value`, which was checked, into plain values, which are equal for equal meanings.

        A returned value may be passed in again, and must mean the same. A value without effect (such as an empty list
        of packages) is converted to a false value, and left out. Raises RuntimeEnvError.
        """
        ...

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return the names of the packages that `build` needs on the node, as `Program.pack` returned them."""
        ...

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Build on a node what `prepare` returned, and return the settings of workers in it. Raises RuntimeEnvError."""
        ...
