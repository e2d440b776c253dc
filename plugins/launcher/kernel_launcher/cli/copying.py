"""`kernel rsync-up` and `rsync-down`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kernel.commands import Refusal
from kernel_launcher.cli.common import cluster_argument, head_of, in_words, name_option
from kernel_launcher.files.copying import copy_down, copy_mount, copy_up
from kernel_launcher.life.up import patterns_of


@click.command("rsync-up")
@cluster_argument
@click.argument("source", required=False, default="", metavar="[LOCAL]")
@click.argument("target", required=False, default="", metavar="[REMOTE]")
@name_option
@in_words
def rsync_up(cluster: Path, source: str, target: str, cluster_name: str) -> None:
    """Copy a local file or directory to the head; without LOCAL, all that the file's file_mounts name.

    As rsync has it, a directory whose name ends with / stands for what is in it. `~` in REMOTE is expanded there.

    \b
    Examples:
      kernel rsync-up cluster.yaml ./data '~/data'
      kernel rsync-up cluster.yaml
    """
    if source and not target:
        raise Refusal("say where to: kernel rsync-up CLUSTER LOCAL REMOTE")
    with head_of(cluster, cluster_name) as head:
        if source:
            count = copy_up(head, os.path.expanduser(source), target, patterns_of(head.plan)())
        else:
            mounts = head.plan.files
            count = sum(copy_mount(head, one.local, one.remote, patterns_of(head.plan)()) for one in mounts)
    click.echo(f"{count} file{'s' * (count != 1)} copied")


@click.command("rsync-down")
@cluster_argument
@click.argument("source", metavar="REMOTE")
@click.argument("target", metavar="LOCAL")
@name_option
@in_words
def rsync_down(cluster: Path, source: str, target: str, cluster_name: str) -> None:
    """Copy a file or directory of the head to this machine.

    As rsync has it, a directory whose name ends with / stands for what is in it. `~` in REMOTE is expanded there.

    \b
    Example:
      kernel rsync-down cluster.yaml '~/results' ./results
    """
    with head_of(cluster, cluster_name) as head:
        count = copy_down(head, source, os.path.expanduser(target))
    click.echo(f"{count} file{'s' * (count != 1)} copied")
