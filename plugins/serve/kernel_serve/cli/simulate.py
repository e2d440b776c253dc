"""`kernel serve simulate`: play a trace of requests against autoscaling settings, in simulated time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernel_serve.cli.tables import table
from kernel_serve.errors import DeploymentError

if TYPE_CHECKING:
    from kernel_serve.settings import AutoscalingConfig
    from kernel_serve.testing.traces import Trace, TraceOutcome

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
_ROWS, _BAR = 24, 40


@click.command("simulate")
@click.argument("trace_file", metavar="TRACE", type=_FILE)
@click.option("--deployment", "settings_file", type=_FILE, help="A configuration file, or one of autoscaling settings.")
@click.option("--name", metavar="NAME", help="Which deployment of the configuration file is meant.")
@click.option("--set", "changes", multiple=True, metavar="SETTING=VALUE", help="Change an autoscaling setting.")
@click.option("--json", "as_json", is_flag=True, help="Print all that happened as JSON.")
def simulate(
    trace_file: Path, settings_file: Path | None, name: str | None, changes: tuple[str, ...], as_json: bool
) -> None:
    """Show how many replicas a deployment would have under a trace of requests.

    TRACE is a file in JSON or YAML; docs/serve-autoscaling.md has the format. The autoscaler is
    the real one, requests and replicas are simulated.

    \b
    Examples:
      kernel serve simulate morning.json --deployment serve.yaml --name Model
      kernel serve simulate morning.json --set max_replicas=20 --set upscale_delay_s=5
    """
    from kernel_serve.testing.traces import play, trace_of

    trace = trace_of(_read(trace_file))
    settings = _settings(settings_file, name, changes)
    outcome = play(trace, settings)
    if as_json:
        click.echo(json.dumps(_as_data(outcome), indent=2))
        return
    _show(trace, settings, outcome)


def _read(path: Path) -> Mapping[str, Any]:
    import yaml  # JSON is YAML, too.

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise DeploymentError(f"{path} is neither JSON nor YAML: {error}") from error
    if not isinstance(data, dict):
        raise DeploymentError(f"{path} has a mapping of names to values, not {type(data).__name__}")
    return data


def _settings(path: Path | None, name: str | None, changes: Sequence[str]) -> AutoscalingConfig:
    """Return the autoscaling settings of a file, with changes from the command line."""
    from kernel_serve.settings import AutoscalingConfig, checked

    given = dict(_of_file(_read(path), path, name)) if path is not None else {"min_replicas": 0, "max_replicas": 10}
    for change in changes:
        setting, equals, value = change.partition("=")
        if not equals:
            raise DeploymentError(f"--set takes SETTING=VALUE, not {change!r}")
        given[setting] = _value(value)
    return checked(AutoscalingConfig, given, "autoscaling_config")


def _of_file(data: Mapping[str, Any], path: Path, name: str | None) -> Mapping[str, Any]:
    """Return the settings in a file: its own, or those of one deployment, in a configuration file too."""
    if "applications" not in data:
        found = data.get("autoscaling_config", data)
        return found if isinstance(found, dict) else {}
    scaled = {
        str(deployment.get("name")): deployment["autoscaling_config"]
        for application in data["applications"] or []
        for deployment in application.get("deployments") or []
        if deployment.get("autoscaling_config")
    }
    if name is None and len(scaled) == 1:
        return next(iter(scaled.values()))
    if name not in scaled:
        there_are = ", ".join(sorted(scaled)) or "none"
        asked = f"no deployment {name!r} with autoscaling_config" if name else "several deployments with it, or none"
        raise DeploymentError(f"{path} has {asked}: give --name; there are: {there_are}")
    return scaled[name]  # type: ignore[no-any-return]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None if text == "None" else text


def _show(trace: Trace, settings: AutoscalingConfig, outcome: TraceOutcome) -> None:
    targets = outcome.targets()
    click.echo(
        f"{trace.name}: {outcome.requests:,} requests in {trace.duration_s:,.0f} s, "
        f"{settings.min_replicas} to {settings.max_replicas} replicas\n"
    )
    rows = [
        ("replicas, least / mean / most", f"{min(targets)} / {_mean(targets):.1f} / {max(targets)}"),
        ("replica hours", f"{outcome.replica_seconds / 3600:.2f}"),
        ("changes / of direction", f"{len(outcome.changes)} / {outcome.turns()}"),
        ("woken from zero", f"{len(outcome.wakes)} times"),
        ("waiting, median / p99 / most", " / ".join(f"{outcome.wait(share):.2f} s" for share in (0.5, 0.99, 1.0))),
        ("not served at the end", f"{outcome.unserved:,}"),
    ]
    click.echo(table((), rows))
    click.echo()
    click.echo(table(("TIME", "QUEUED", "ONGOING", "READY", "TARGET", ""), _rows(outcome), right=range(5)))


def _rows(outcome: TraceOutcome) -> list[tuple[str, ...]]:
    """Return a row for each of some equal spans of time: mean numbers of requests, and the most replicas."""
    size = max(1, -(-len(outcome.moments) // _ROWS))
    most = max(max(outcome.targets()), 1)
    rows: list[tuple[str, ...]] = []
    for begin in range(0, len(outcome.moments), size):
        span = outcome.moments[begin : begin + size]
        target = max(moment.target for moment in span)
        bar = "#" * round(_BAR * target / most)
        queued, ongoing = _mean([moment.queued for moment in span]), _mean([moment.ongoing for moment in span])
        rows.append(
            (f"{span[0].time:,.0f} s", f"{queued:.1f}", f"{ongoing:.1f}", str(span[-1].ready), str(target), bar)
        )
    return rows


def _as_data(outcome: TraceOutcome) -> dict[str, Any]:
    return {
        "trace": outcome.trace.name,
        "requests": outcome.requests,
        "unserved": outcome.unserved,
        "replica_seconds": outcome.replica_seconds,
        "turns": outcome.turns(),
        "wait_s": {"median": outcome.wait(0.5), "p99": outcome.wait(0.99), "most": outcome.wait(1.0)},
        "changes": [{"time": time, "target": target} for time, target in outcome.changes],
        "moments": [
            {"time": at.time, "target": at.target, "ready": at.ready, "queued": at.queued, "ongoing": at.ongoing}
            for at in outcome.moments
        ],
    }


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)
