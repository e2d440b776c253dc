"""`kernel serve start`, `status` and `shutdown`."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from kernel_serve.api.addresses import proxy_addresses
from kernel_serve.cli.run import app_dir_option
from kernel_serve.cli.session import address_option, join
from kernel_serve.cli.show import show_grpc, show_status
from kernel_serve.errors import NotServingError
from kernel_serve.names import missing


@click.command("start")
@click.option("--http-host", "--host", "host", help="Where the proxies listen (default: 127.0.0.1).")
@click.option("--http-port", "--port", "port", type=int, help="Their port (default: 8000).")
@click.option("--proxy-location", type=click.Choice(["EveryNode", "HeadOnly", "Disabled"]), help="Where they run.")
@click.option("--grpc-port", type=int, help="The port for gRPC (default: 9000).")
@click.option(
    "--grpc-servicer-functions", "functions", multiple=True, metavar="PATH", help="Take gRPC for this service."
)
@app_dir_option
@click.option("--rest-port", type=int, help="Serve the REST API on this port of 127.0.0.1 as well; 0 takes a free one.")
@click.option("--rest-host", default="127.0.0.1", show_default=True, help="Where the REST API listens.")
@address_option
def start(
    host: str | None, port: int | None, proxy_location: str | None, grpc_port: int | None,
    functions: tuple[str, ...], app_dir: str, rest_port: int | None, rest_host: str, address: str | None,
) -> None:  # fmt: skip
    """Start Serve in a running session: proxies that wait for applications.

    \b
    Examples:
      kernel serve start --http-host 0.0.0.0
      kernel serve start --rest-port 8265
    """
    from kernel_serve.api import run as api

    join(address)
    http = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    services = {"grpc_servicer_functions": functions, "app_dir": os.path.abspath(app_dir)} if functions else {}
    grpc = services if grpc_port is None else {**services, "port": grpc_port}
    api.start(proxy_location, http or None, grpc or None)  # type: ignore[arg-type]
    found = api.status()
    click.echo(f"Serve runs; requests go to {', '.join(proxy_addresses(found)) or 'handles only'}")
    show_grpc(found)
    if rest_port is not None:
        from kernel_serve.rest.server import start_rest

        click.echo(f"REST API: http://{start_rest(rest_host, rest_port)}/api/serve/applications/")
        click.echo("`kernel token` shows the token for its Authorization: Bearer")


@click.command("status")
@click.option("--name", metavar="NAME", help="Only this application.")
@click.option("--json", "as_json", is_flag=True, help="Print all there is to know, as JSON.")
@address_option
def status(name: str | None, as_json: bool, address: str | None) -> None:
    """Show what runs, and why applications do not run.

    The exit code is 1 when an application is not what it should be.
    """
    from kernel_serve.api import run as api

    join(address)
    found: dict[str, Any] = api.status()
    if name is not None:
        if name not in found["applications"]:
            raise NotServingError(missing("application", name, found["applications"]))
        found = {**found, "applications": {name: found["applications"][name]}}
    if as_json:
        click.echo(json.dumps(found, indent=2, default=str))
    else:
        show_status(found)
    if any(view.get("status") in ("DEPLOY_FAILED", "UNHEALTHY") for view in found["applications"].values()):
        raise click.exceptions.Exit(1)


@click.command("shutdown")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@address_option
def shutdown(yes: bool, address: str | None) -> None:
    """End Serve in a session: applications, proxies, the REST API."""
    from kernel_serve.api import run as api
    from kernel_serve.config.deploying import keep
    from kernel_serve.rest.server import stop_rest

    join(address)
    try:
        names = list(api.status()["applications"])
    except NotServingError:
        names = None
    if names is None:
        click.echo("Serve does not run")
    elif not yes:
        click.confirm(f"End Serve with {', '.join(names) or 'no application'}?", abort=True)
    stop_rest()
    keep(None)
    if names is not None:
        api.shutdown()
        click.echo("Serve has ended")
