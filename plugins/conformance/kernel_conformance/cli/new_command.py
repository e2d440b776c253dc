"""`kernel plugins new`: a plugin distribution to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from kernel.cli import completion
from kernel.commands import Refusal, unknown
from kernel_conformance.cli import plugin_template
from kernel_spec.errors import KernelError


@click.command("new")
@click.argument("kind", shell_complete=completion.one_of(plugin_template.TEMPLATES))
@click.argument("name")
@click.option("--path", type=click.Path(path_type=Path), help="The folder to write to (default: ./kernel-KIND-NAME).")
def new(kind: str, name: str, path: Path | None) -> None:
    """Write a plugin of KIND called NAME: a distribution of its own, with a test that passes.

    \b
    KIND is one of: scheduler, serializer, object_store, metadata_store, spill_target, memory_guard,
    environment, accelerator, node_provider, observer, metrics_sink, cli_command, library, head_service,
    engine, network.

    Example: kernel plugins new scheduler priority
    """
    kind = kind.replace("-", "_")
    if kind not in plugin_template.TEMPLATES:
        raise unknown(f"kind of plugin {kind!r}", kind, plugin_template.TEMPLATES)
    try:
        folder = path or Path(plugin_template.default_folder(kind, name))
        written = plugin_template.write(kind, name, folder)
    except KernelError as error:
        raise Refusal(str(error)) from error
    for file in written:
        click.echo(f"wrote {file}")
    click.echo(f'\nNext:  cd {folder} && pip install -e ".[test]" && pytest')
