"""`kernel serve deploy`, `config` and `build`: the configuration file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kernel_serve.cli.run import app_dir_option
from kernel_serve.cli.session import address_option, join
from kernel_serve.errors import DeploymentError, NotServingError

if TYPE_CHECKING:
    from kernel_serve.config.values import ServeConfig

_FILE = click.Path(dir_okay=False, exists=True)


@click.command("deploy")
@click.argument("file", type=_FILE)
@click.option("--wait/--no-wait", default=True, help="Wait until it takes requests (default), or only until accepted.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Wait at most so long (default: as long as it takes).")
@click.option("--dry-run", is_flag=True, help="Show what would be different, and deploy nothing.")
@app_dir_option
@address_option
def deploy(file: str, wait: bool, timeout: float | None, dry_run: bool, app_dir: str, address: str | None) -> None:
    """Deploy a configuration FILE in a running session: what is in it, and nothing of the file before.

    Applications that were deployed otherwise stay. docs/serve-config.md describes the file.

    \b
    Examples:
      kernel serve deploy serve.yaml
      kernel serve deploy serve.yaml --dry-run
    """
    from kernel_serve.config.reading import read_file

    config = read_file(file)
    directory = os.path.abspath(app_dir)
    sys.path.insert(0, directory)
    join(address)
    _show_changes(config)
    if dry_run:
        return
    from kernel_serve.api import run as api
    from kernel_serve.config.deploying import build_here, deploy_config

    names = deploy_config(config, build_here(directory), directory)
    if not wait:
        click.echo(f"accepted: {', '.join(names) or 'no application'}; `kernel serve status` shows what becomes of it")
        return
    for name in names:
        api.wait_until_running(name, timeout)
        click.echo(f"{name} takes requests")


def _show_changes(config: ServeConfig) -> None:
    from kernel_serve.config.deploying import kept
    from kernel_serve.config.values import changes

    before = kept()
    if before is None:
        click.echo("nothing was deployed from a file before")
        return
    found = changes(before, config.data)
    for change in found:
        colour = {"+": "green", "-": "red"}.get(str(change)[0], "yellow")
        click.echo(click.style(str(change), fg=colour))
    if not found:
        click.echo("nothing is different in the file; changed code is deployed")


@click.command("config")
@click.option("--name", metavar="NAME", help="Only this application.")
@address_option
def config(name: str | None, address: str | None) -> None:
    """Print the configuration that was deployed last."""
    import yaml

    from kernel_serve.config.deploying import kept

    join(address)
    data = kept()
    if data is None:
        raise NotServingError("nothing was deployed from a file in this session; `kernel serve status` shows all")
    if name is not None:
        found = [each for each in data["applications"] if each["name"] == name]
        if not found:
            known = ", ".join(each["name"] for each in data["applications"]) or "none"
            raise NotServingError(f"the configuration has no application {name!r}; there are: {known}")
        data = found[0]
    click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


@click.command("build")
@click.argument("import_paths", nargs=-1, required=True, metavar="IMPORT_PATH...")
@click.option("-o", "--output-path", "--output", "output", metavar="FILE", help="Write it there instead.")
@app_dir_option
def build(import_paths: tuple[str, ...], output: str | None, app_dir: str) -> None:
    """Print the configuration file of applications as they are in the code, with comments.

    \b
    Examples:
      kernel serve build shop:app -o serve.yaml
      kernel serve build shop:app search:app
    """
    from kernel_serve.config.writing import Written, write
    from kernel_serve.users_code import import_application

    sys.path.insert(0, os.path.abspath(app_dir))
    several = len(import_paths) > 1
    text = write(
        [
            Written(
                path,
                import_application(path),
                f"app{number}" if several else "default",
                f"/app{number}" if several else "/",
            )
            for number, path in enumerate(import_paths, 1)
        ]
    )
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DeploymentError(f"{output} can't be written: {error.strerror}") from error
    click.echo(f"wrote {output}")
