"""`kernel ray-run`: run a program that was written for Ray."""

from __future__ import annotations

import os

import click

from kernel_compat_ray.run import run


@click.command("ray-run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--wait-milliseconds", is_flag=True, help="Timeouts of ray.wait are in milliseconds, as before release 0.7."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENTS]...")
def ray_run(arguments: tuple[str, ...], wait_milliseconds: bool) -> None:
    """Run a program that imports ray on kernel, unchanged and without Ray.

    \b
    Examples:
      kernel ray-run train.py --epochs 3
      kernel ray-run -m package.module
      RAY_ADDRESS=auto kernel ray-run train.py
    """
    if not arguments:
        raise click.UsageError("say which program: kernel ray-run SCRIPT [ARGUMENTS]...")
    script = arguments[0]
    if not script.startswith("-") and not os.path.exists(script):
        raise click.UsageError(f"there is no program {script!r}")
    run(arguments, wait_milliseconds)
