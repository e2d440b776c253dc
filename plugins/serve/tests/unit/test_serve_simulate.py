"""`kernel serve simulate` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from kernel_serve.cli.main import serve

TRACE = {
    "name": "lunch",
    "duration_s": 300,
    "service_time_s": 1,
    "spacing": "even",
    "arrivals": [{"rate": 8, "start": 60, "until": 200}],
}
CONFIG = """
applications:
  - name: shop
    import_path: shop:app
    deployments:
      - name: Model
        autoscaling_config: {min_replicas: 1, max_replicas: 3, upscale_delay_s: 5, downscale_delay_s: 20}
      - name: Front
        num_replicas: 2
"""


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run the command and return its exit code and what it printed."""
    result = CliRunner().invoke(serve, ["simulate", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE))
    return path


def test_it_prints_what_would_happen(trace: Path) -> None:
    code, text = run(trace, "--set", "max_replicas=6", "--set", "upscale_delay_s=0", "--set", "downscale_delay_s=10")
    assert code == 0, text
    assert text.startswith("lunch: 1,120 requests in 300 s, 0 to 6 replicas\n")
    assert "woken from zero                1 times" in text
    lines = text.splitlines()
    heads = next(number for number, line in enumerate(lines) if line.split()[:2] == ["TIME", "QUEUED"])
    assert len(lines[heads + 1 :]) == 24 and "#" * 40 in text


def test_settings_come_from_a_configuration_file(trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text(CONFIG)
    code, text = run(trace, "--deployment", config, "--json")
    data = json.loads(text)
    assert code == 0 and data["requests"] == 1120
    assert {moment["target"] for moment in data["moments"]} == {1, 2, 3}
    assert run(trace, "--deployment", config, "--name", "Model", "--json") == (0, text)


def test_settings_come_from_a_file_of_their_own(trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "auto.yaml"
    config.write_text("min_replicas: 2\nmax_replicas: 2\n")
    code, text = run(trace, "--deployment", config)
    assert code == 0 and "2 to 2 replicas" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "max_replica=3"], "autoscaling_config has no setting 'max_replica'; did you mean 'max_replicas'?"),
        (["--set", "max_replicas"], "--set takes SETTING=VALUE, not 'max_replicas'"),
        (["--set", "max_replicas=many"], "max_replicas is a whole number from 1 on, not 'many'"),
        (["--deployment", "{config}", "--name", "Front"], "no deployment 'Front' with autoscaling_config"),
    ],
)
def test_mistakes_are_answered_in_a_line(trace: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text(CONFIG)
    code, text = run(trace, *(argument.format(config=config) for argument in arguments))
    assert code == 2 and message in text and "Traceback" not in text


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[1, 2]")
    assert "has a mapping of names to values, not list" in run(path)[1]
    path.write_text("{a: [")
    assert "is neither JSON nor YAML" in run(path)[1]


def test_a_command_that_there_is_not_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(serve, ["simulat"])
    assert result.exit_code == 2 and "there is no command 'serve simulat', did you mean 'simulate'?" in result.output
