"""Check runtime environments in the program, and convert them to plain values that any node can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from kernel.environments.package_digests import PIECE_BYTES, digest_of
from kernel.runtime.current import get_runtime
from kernel_spec.errors import RuntimeEnvError

if TYPE_CHECKING:
    from kernel.plugins import PluginManager

# Builders of environments are imported inside the functions, because most programs use no runtime environment.


def prepare_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as plain values; its directories are sent to the head, named by a digest of their content.

    Raises RuntimeEnvError for an unknown field, a bad value, or files that can't be packed.
    """
    from kernel.environments.builders import BUILT_IN, OTHER_FIELDS, EnvironmentBuilders

    runtime = get_runtime()
    program = _Program(runtime, given.get("excludes") or ())
    builders = EnvironmentBuilders(program.plugins)
    fields = [field for field in given if field not in OTHER_FIELDS]
    takers = {field: builders.of(field) for field in fields}
    _check_others(given)
    description: dict[str, Any] = {} if given.get("inherit", True) else {"inherit": False}
    for field in [*(name for name in BUILT_IN if name in takers), *(name for name in fields if name not in BUILT_IN)]:
        if given[field] is not None:
            takers[field].check(given[field])
            prepared = takers[field].prepare(given[field], program)
            if prepared:
                description[field] = prepared
    return description


def pack_runtime_env(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """Pack and send the files of this machine that a runtime_env names; return a runtime_env that any node can use.

    It has plain values, which are equal for equal contents. Any program of the session can use it while the session
    lasts. Raises RuntimeEnvError for an unknown field, a bad value, or files that can't be packed, and
    NotInitializedError without a session.
    """
    return prepare_environment(runtime_env)


def check_types(given: Mapping[str, Any]) -> None:
    """Raise RuntimeEnvError for one of the kernel's own fields whose value has a wrong type.

    Files are not read, and fields of plugins are checked only when the environment is first used.
    """
    from kernel.environments.builders import BUILT_IN

    for field, make in BUILT_IN.items():
        if given.get(field) is not None:
            make().check(given[field])
    _check_others(given)


def _check_others(given: Mapping[str, Any]) -> None:
    excludes = given.get("excludes")
    if excludes is not None:
        expected = "runtime_env['excludes'] must be a list of names and patterns of files"
        if not isinstance(excludes, (list, tuple)):
            raise RuntimeEnvError(f"{expected}, not {excludes!r}")
        for item in excludes:
            if not isinstance(item, str):
                raise RuntimeEnvError(f"{expected}, and {item!r} is neither")
    if not isinstance(given.get("inherit", True), bool):
        raise RuntimeEnvError(f"runtime_env['inherit'] must be True or False, not {given['inherit']!r}")


class _Program:
    """The program's side of builders: plugins and packing (see `kernel_spec.environments.Program`)."""

    def __init__(self, runtime: Any, excludes: Sequence[str]) -> None:
        self._runtime = runtime
        self._excludes = excludes

    def plugins(self) -> PluginManager | None:
        """Return the plugins of the session, or None if no plugin builds environments."""
        from kernel.plugins import PluginManager

        catalog = self._runtime.query("plugin_catalog")
        return None if catalog is None else PluginManager.from_catalog(catalog)

    def pack(self, path: str, below: str = "") -> str:
        """Send the files at `path`, in an archive below the directory `below`, and return the package's name.

        A `path` that is the name of a package is returned as it is. Raises RuntimeEnvError when the session does not
        have that package, or when files can't be packed.
        """
        from kernel_spec.environments import PACKAGE

        if not path.startswith(PACKAGE):
            from kernel.api.package_files import pack  # only where there is something to pack

            with pack(path, below, self._excludes) as archive:
                return PACKAGE + _send(self._runtime, archive)
        if not self._runtime.query("has_package", path.removeprefix(PACKAGE)):
            raise RuntimeEnvError(
                f"runtime_env names {path!r}, which this session does not have; give the directory itself, or a "
                "runtime_env that pack_runtime_env() has returned in this session"
            )
        return path


def _send(runtime: Any, archive: IO[bytes]) -> str:
    digest = digest_of(archive)
    if not runtime.query("has_package", digest):
        size = archive.tell()
        for offset in range(0, size, PIECE_BYTES):
            archive.seek(offset)
            runtime.query("add_package", digest, offset, size, archive.read(PIECE_BYTES))
    return digest
