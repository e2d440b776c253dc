"""`kernel serve top`: show again and again what Serve does."""

from __future__ import annotations

import click

from kernel_serve.cli.session import address_option, join


@click.command("top")
@click.option("--interval", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Look for one interval, print that as lines, and end.")
@click.option("--svg", metavar="FILE", type=click.Path(dir_okay=False), help="Once, into a picture.")
@address_option
def top(interval: float, once: bool, svg: str | None, address: str | None) -> None:
    """Show applications, deployments and replicas with their requests, as they go.

    Requests a second, latencies and errors are those of the last interval. On a terminal the view stays and is drawn
    anew; elsewhere each look is some lines. Ctrl-C ends it.
    """
    import asyncio

    from kernel_serve.cli.top_looks import show

    join(address)
    try:
        asyncio.run(show(interval, once, svg))
    except KeyboardInterrupt:
        click.echo()
