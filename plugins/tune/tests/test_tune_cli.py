"""`kernel tune`: tables of experiments and trials."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kernel_tune.cli.main import tune as command

from kernel import tune


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory, session: None) -> Path:
    """An experiment of three trials that was run."""
    root = tmp_path_factory.mktemp("results")

    def climb(config: dict[str, Any]) -> None:
        for step in range(3):
            tune.report({"height": config["x"] * step})

    tune.run(
        climb, name="climb", local_dir=str(root), config={"x": tune.grid_search([3, 1, 2])}, metric="height",
        mode="max", verbose=0,
    )  # fmt: skip
    return root / "climb"


def call(*arguments: str, code: int = 0, width: int = 200) -> str:
    result = CliRunner().invoke(command, list(arguments), env={"COLUMNS": str(width)})
    assert result.exit_code == code, result.output
    return result.output


def test_trials_in_a_table(experiment: Path) -> None:
    text = call("list-trials", str(experiment))
    assert "| climb " in text and "0_x=3" in text and "TERMINATED" in text and "height" in text
    narrow = call("list-trials", str(experiment), width=60)
    assert "Dropped columns: [" in narrow and "Please increase your terminal size" in narrow
    assert max(map(len, narrow.split("Dropped")[0].splitlines())) <= 60


def test_sorted_filtered_and_written(experiment: Path, tmp_path: Path) -> None:
    rows = json.loads(call("list-trials", str(experiment), "--json", "--sort", "height", "--desc"))
    assert [row["height"] for row in rows] == [6, 4, 2]
    (row,) = json.loads(call("list-trials", str(experiment), "--json", "--filter", "config/x == 2"))
    assert row["experiment_tag"] == "2_x=2"
    assert (
        len(json.loads(call("list-trials", str(experiment), "--json", "--filter", f"trial_id == {row['trial_id']}")))
        == 1
    )
    output = tmp_path / "note.csv"
    assert f"Output saved at: {output}" in call("list-trials", str(experiment), "--output", str(output))
    assert len(output.read_text().splitlines()) == 4
    pickled = tmp_path / "note.pkl"
    call(
        "list-trials", str(experiment), "--columns", "trial_id", "--result-columns", "height", "--output", str(pickled)
    )
    assert [sorted(row) for row in pickle.loads(pickled.read_bytes())] == [["height", "trial_id"]] * 3


def test_experiments_and_notes(experiment: Path) -> None:
    call("add-note", str(experiment), "--text", "steeper next time")
    (row,) = json.loads(call("list-experiments", str(experiment.parent), "--json"))
    assert row["name"] == "climb" and row["total_trials"] == 3 and row["note"] == "steeper next time"
    assert "climb" in call("ls", str(experiment.parent)) and "0_x=3" in call("ls", str(experiment))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list-trials", "nowhere"), "there is no directory nowhere"),
        (("list-trials", "EXPERIMENT", "--sort", "heigt"), "no column 'heigt'; did you mean 'height'?"),
        (("list-trials", "EXPERIMENT", "--filter", "height is 3"), "not of the form '<column> <operator> <value>'"),
        (("list-trials", "EXPERIMENT", "--filter", "height > tall"), "height, which has numbers, with 'tall': give a"),
        (("list-trial", "EXPERIMENT"), "there is no command 'tune list-trial', did you mean 'list-trials'?"),
        (("list-trials", "EXPERIMENT", "--output", "x.docx"), "tables are written as .csv or .pkl"),
    ],
)
def test_mistakes_are_answered_in_a_line(experiment: Path, arguments: tuple[str, ...], message: str) -> None:
    given = [str(experiment) if each == "EXPERIMENT" else each for each in arguments]
    result = CliRunner().invoke(command, given)
    assert result.exit_code != 0 and message in result.output
