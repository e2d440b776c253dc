"""`kernel serve run`: run an application as long as the command runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from kernel_serve.api.addresses import proxy_addresses
from kernel_serve.cli.reload import Watcher, watch
from kernel_serve.cli.session import address_option, join_or_start
from kernel_serve.cli.show import show_status
from kernel_serve.errors import DeploymentError, NotServingError
from kernel_spec.errors import SessionEndedError

if TYPE_CHECKING:
    from kernel_serve.config.values import ServeConfig

_FILES = (".yaml", ".yml", ".json")

app_dir_option: Callable[[Any], Any] = click.option(
    "--app-dir", default=".", show_default=True, metavar="DIR", help="Where the application's code is."
)


@click.command("run")
@click.argument("target", metavar="IMPORT_PATH|FILE")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--name", default="default", show_default=True, help="What the application is called.")
@click.option("--route-prefix", default="/", show_default=True, help="The path its requests begin with.")
@click.option("--blocking/--non-blocking", default=True, help="Stay until Ctrl-C, then delete it (default), or leave.")
@click.option("--reload", "reloads", is_flag=True, help="Deploy again whenever a source file changes.")
@click.option("--host", help="Where the proxies listen, if they don't yet (default: 127.0.0.1).")
@click.option("--port", type=int, help="The port of the proxies, if they don't run yet (default: 8000).")
@click.option(
    "--working-dir", metavar="DIR", help="Send this directory to where the replicas run, and start them in it."
)
@app_dir_option
@address_option
def run(
    target: str, arguments: tuple[str, ...], name: str, route_prefix: str, blocking: bool, reloads: bool,
    host: str | None, port: int | None, working_dir: str | None, app_dir: str, address: str | None,
) -> None:  # fmt: skip
    """Run an application, or all of a configuration file.

    IMPORT_PATH is where the application is, or the function that builds it from NAME=VALUE: "module:name". Without a
    running session one is started for as long as this command runs.

    \b
    Examples:
      kernel serve run shop:app
      kernel serve run shop:build model=large --reload
      kernel serve run serve.yaml --non-blocking
    """
    if reloads and not blocking:
        raise click.UsageError("--reload stays, and can't be combined with --non-blocking")
    directory = os.path.abspath(app_dir)
    is_file = target.endswith(_FILES)
    if is_file and arguments:
        raise click.UsageError("NAME=VALUE is for an IMPORT_PATH; a file has `args`")
    read = _of_file(target) if is_file else _of_path(target, arguments, name, route_prefix, working_dir)
    file = target if is_file else None
    watcher = Watcher(directory, (file,) if file else ()) if reloads else None  # Before any of them is read.
    config = read()
    sys.path.insert(0, directory)
    started = join_or_start(address)
    if started and not blocking:
        raise click.UsageError("--non-blocking needs a session that stays: `kernel start --head` starts one")
    proxies = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    names = _bring_up(config, directory, proxies, keeps=is_file)
    _show(names)
    if blocking:
        _stay(names, started, watcher, lambda: _again(file, directory, read))


def _of_file(path: str) -> Callable[[], ServeConfig]:
    def read() -> ServeConfig:
        from kernel_serve.config.reading import read_file

        try:
            return read_file(path)
        except OSError as error:
            raise DeploymentError(f"{path} can't be read: {error.strerror}") from error

    return read


def _of_path(
    path: str, arguments: Sequence[str], name: str, route_prefix: str, working_dir: str | None
) -> Callable[[], ServeConfig]:
    def read() -> ServeConfig:
        from kernel_serve.config.values import ApplicationConfig, ServeConfig

        prefix = None if route_prefix in ("", "none", "None", "null") else route_prefix
        environment = {"working_dir": working_dir} if working_dir else {}
        application = ApplicationConfig(name, path, prefix, parsed_arguments(arguments), environment)
        return ServeConfig(applications=(application,))

    return read


def parsed_arguments(arguments: Sequence[str]) -> dict[str, Any]:
    """Return NAME=VALUE texts as a mapping. Values are read as YAML: `3` is a number, `true` is True."""
    import yaml

    found: dict[str, Any] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise DeploymentError(f"arguments of an application are NAME=VALUE, not {argument!r}")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            found[name] = value
    return found


def _bring_up(config: ServeConfig, directory: str, proxies: dict[str, Any], keeps: bool) -> Sequence[str]:
    """Deploy a configuration and wait until all of it takes requests; return the names of the applications."""
    from kernel_serve.api import run as api
    from kernel_serve.config.deploying import build_here, deploy_config

    if keeps:
        if proxies:
            api.start(http_options=proxies)
        names = deploy_config(config, build_here(directory), directory)
    else:
        specs = build_here(directory)(config)
        api.start(http_options=proxies or None)
        api.deploy(specs)
        names = [spec.name for spec in specs]
    for name in names:
        api.wait_until_running(name)
    return names


def _show(names: Sequence[str]) -> None:
    from kernel_serve.api import run as api

    status = api.status()
    shown = {name: view for name, view in status["applications"].items() if name in names}
    show_status({**status, "applications": shown, "endpoints": ()})
    if not proxy_addresses(status):
        click.echo("No proxy runs: only handles reach it.")


def _stay(names: Sequence[str], started: bool, watcher: Watcher | None, redeploy: Callable[[], None]) -> None:
    """Wait until Ctrl-C (or SIGTERM), then delete what was deployed. End Serve if the session was `started` for it."""
    from kernel_serve.api.run_forever import ending_as_interrupt, run_forever

    with contextlib.suppress(KeyboardInterrupt), ending_as_interrupt():
        click.echo(f"Ctrl-C ends it{'; changes of sources are deployed' if watcher else ''}.")
        if watcher:
            watch(watcher, redeploy, click.echo)
        run_forever()
    click.echo("")
    with contextlib.suppress(SessionEndedError, NotServingError, KeyboardInterrupt):
        _take_down(names, started)


def _take_down(names: Sequence[str], started: bool) -> None:
    from kernel_serve.api import run as api

    if started:
        api.shutdown()
        return
    there = api.status()["applications"]
    for name in names:
        if name in there:
            api.delete(name)


def _again(file: str | None, directory: str, read: Callable[[], ServeConfig]) -> None:
    from kernel_serve.users_code import forget_modules

    forget_modules(directory)
    _bring_up(read(), directory, {}, keeps=file is not None)
