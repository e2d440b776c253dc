"""What the process of a run sets up: which GPUs it sees, where what it prints goes, where it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel_runs import RunError
from kernel_runs.place import Place
from kernel_runs.process.devices import VISIBLE, VisibleDevices
from kernel_runs.process.trial_output import OutputFiles, names_of


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, ("", "")), (False, ("", "")), (True, ("stdout", "stderr")), ("all", ("all", "all")),
        (["out", None], ("out", "")), ((None, "err"), ("", "err")),
    ],
)  # fmt: skip
def test_files_are_named_in_several_ways(given: Any, names: tuple[str, str]) -> None:
    assert names_of(given) == names


@pytest.mark.parametrize("given", [3, "", ["one"], ["one", 2], ["a", "b", "c"]])
def test_what_names_no_files_is_refused(given: Any) -> None:
    with pytest.raises(RunError, match=r"log_to_file is .*: it is True .*, the name of one file, or two names"):
        names_of(given)


def test_what_is_printed_goes_to_both_and_stops_when_it_is_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = OutputFiles()
    before = sys.stdout, sys.stderr
    printed.switch(str(tmp_path), ("deep/out", "err"))
    print("to out")
    sys.stderr.writelines(["to ", "err\n"])
    printed.add_error("Traceback")
    assert sys.stdout.encoding == before[0].encoding, "all else is the stream's"
    sys.stdout.flush()
    printed.switch(str(tmp_path), ("both", "both"))
    print("one")
    print("two", file=sys.stderr)
    printed.close()
    assert (sys.stdout, sys.stderr) == before
    print("after")
    printed.add_error("nowhere")
    assert (tmp_path / "deep" / "out").read_text() == "to out\n"
    assert (tmp_path / "err").read_text() == "to err\nTraceback\n" and (tmp_path / "both").read_text() == "one\ntwo\n"
    assert capsys.readouterr() == ("to out\none\nafter\n", "to err\ntwo\n")


def test_a_file_that_can_not_be_written_does_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = OutputFiles()
    printed.switch(str(tmp_path), ("out", ""))
    printed._files[0].close()
    print("all the same")
    sys.stdout.flush()
    printed.close()
    assert capsys.readouterr().out == "all the same\n" and sys.stderr is not printed._errors


@pytest.mark.parametrize("before", [None, "3"])
def test_a_process_sees_its_own_gpus_and_none_if_it_has_none(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    if before is not None:
        monkeypatch.setenv(VISIBLE, before)
    monkeypatch.setattr(kernel, "get_gpu_ids", lambda: [])
    devices = VisibleDevices()
    devices.undo()
    assert os.environ.get(VISIBLE) == before
    devices.show()
    assert os.environ[VISIBLE] == ""
    os.environ[VISIBLE] = "5"
    devices.show()  # once is enough
    assert os.environ[VISIBLE] == "5"
    devices.undo()
    assert os.environ.get(VISIBLE) == before
    monkeypatch.setenv(VISIBLE, "7")
    devices.undo()  # there is nothing to set back
    assert os.environ[VISIBLE] == "7"
    devices.show()
    assert os.environ[VISIBLE] == ""
    devices.undo()
    assert os.environ[VISIBLE] == "7"


def test_what_an_accelerator_plugin_has_shown_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "get_gpu_ids", lambda: [1, 2])
    monkeypatch.setenv(VISIBLE, "GPU-uuid")
    devices = VisibleDevices()
    devices.show()
    assert os.environ[VISIBLE] == "GPU-uuid"
    monkeypatch.delenv(VISIBLE)
    devices.show()
    assert os.environ[VISIBLE] == "1,2"
    devices.undo()
    assert VISIBLE not in os.environ


def test_a_place_makes_its_directory_when_it_is_asked_for(tmp_path: Path) -> None:
    place = Place(logdir=str(tmp_path / "a" / "b"))
    assert (
        not (tmp_path / "a").exists() and place.directory == str(tmp_path / "a" / "b") and (tmp_path / "a/b").is_dir()
    )
    nowhere = Place()
    assert os.path.isdir(nowhere.directory) and nowhere.directory == nowhere.logdir
    assert Place.current() is None
    Place.set_current(place)
    assert Place.current() is place
    Place.set_current(None)
