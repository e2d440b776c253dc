"""Trees of arrays as files: they come back as they were, run nothing, and say what is wrong with damaged ones."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.checkpoints.tree import read_tree, write_tree
from kernel_rllib.errors import CheckpointError


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "module": {"default_policy": {"weights": np.arange(6, dtype=np.float32).reshape(2, 3)}},
        "runners": {"0": {"env": b"\x00state", "steps": np.asarray(3)}},
        "counts": {"steps": 10**12, "none": None, "on": True, "list": [1, [2.5, "a"]], "empty": {}},
        "mean": 0.1 + 0.2,
    }
    write_tree(tmp_path / "made", tree)
    read = read_tree(tmp_path / "made")
    np.testing.assert_array_equal(
        read["module"]["default_policy"].pop("weights"), tree["module"]["default_policy"].pop("weights")
    )
    assert read["runners"]["0"].pop("steps") == tree["runners"]["0"].pop("steps")
    assert read["module"].pop("default_policy") == {} and tree["module"].pop("default_policy") == {}
    assert read == tree
    assert (tmp_path / "made/module/default_policy/weights.npy").is_file()
    assert (tmp_path / "made/runners/0/env.bin").read_bytes() == b"\x00state"


def test_numbers_that_are_not_finite_come_back(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a": math.inf, "b": math.nan, "c": np.float32(1.5), "d": np.int64(3)})
    read = read_tree(tmp_path)
    assert read["a"] == math.inf and math.isnan(read["b"]) and read["c"] == 1.5 and read["d"] == 3


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"a": object()}, "a is object, which a checkpoint can't keep"),
        ({"a": np.array([object()])}, "a is ndarray, which a checkpoint can't keep"),
        ({"a/b": 1}, "'a/b' can't be a name in a checkpoint"),
        ({"": 1}, "'' can't be a name in a checkpoint"),
        ({"a.": 1}, "must not end with a dot"),
        ({3: 1}, "3 can't be a name in a checkpoint"),
    ],
)
def test_what_can_not_be_kept_is_refused(tmp_path: Path, tree: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        write_tree(tmp_path, tree)


def test_what_is_damaged_says_which_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is no checkpoint: there is no tree.json"):
        read_tree(tmp_path)
    write_tree(tmp_path, {"a": np.arange(3), "b": b"1"})
    (tmp_path / "a.npy").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"a\.npy can't be read"):
        read_tree(tmp_path)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(CheckpointError, match=r"a\.npy can't be read"):
        read_tree(tmp_path)
    (tmp_path / "tree.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tree\.json is damaged"):
        read_tree(tmp_path)


def test_nothing_outside_of_it_is_read_and_nothing_is_unpickled(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    np.save(tmp_path / "a.npy", np.array([Hostile()], dtype=object), allow_pickle=True)
    for name in ("a.npy", "../secret.bin", "/etc/hostname"):
        (tmp_path / "tree.json").write_text(json.dumps({"a": {"file": name}}))
        with pytest.raises(CheckpointError):
            read_tree(tmp_path)
    assert not (tmp_path / "ran").exists()
