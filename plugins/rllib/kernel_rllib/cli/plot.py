"""`rllib plot`: returns over steps of one run or many, as a picture."""

from __future__ import annotations

import os

import click

from kernel.commands import Refusal
from kernel_rllib.experiments.curves import curves_in
from kernel_rllib.experiments.curves_page import write_page
from kernel_rllib.experiments.curves_picture import write_picture


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option("-o", "--output", default="curves.html", metavar="FILE", help="FILE.html (needs nothing) or FILE.png.")
@click.option("--metric", default="episode_reward_mean", metavar="NAME", help="What is drawn; a path such as a/b too.")
@click.option("--x", "over", default="timesteps_total", metavar="NAME", help="Over what: time_total_s, for instance.")
def plot(directories: tuple[str, ...], output: str, metric: str, over: str) -> None:
    """Draw the returns of the runs in DIR..., the directories of runs or of experiments, over steps.

    \b
    Examples:
      rllib plot ~/kernel_results/default
      rllib plot run-of-today run-of-yesterday -o both.png --x time_total_s
    """
    ending = os.path.splitext(output)[1].lower()
    if ending not in (".html", ".htm", ".png"):
        raise Refusal(f"the picture {output!r} has the ending {ending!r}: give FILE.html or FILE.png")
    curves = curves_in(directories, metric, over)
    write = write_picture if ending == ".png" else write_page
    path = write(curves, output, metric, over)
    click.echo(f"{len(curves)} run{'s' * (len(curves) != 1)} in {path}")
