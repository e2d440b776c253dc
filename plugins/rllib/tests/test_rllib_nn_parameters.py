"""The table of parameters in a flat vector."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.parameters import ParameterTable, matches

NET = ParameterTable({"hidden_0/weight": (4, 3), "hidden_0/bias": (3,), "output/weight": (3, 2), "scale": ()})


def test_places_follow_each_other_in_order() -> None:
    assert NET.size == 12 + 3 + 6 + 1
    assert [(name, entry.shape, entry.place) for name, entry in NET.items()] == [
        ("hidden_0/weight", (4, 3), slice(0, 12)),
        ("hidden_0/bias", (3,), slice(12, 15)),
        ("output/weight", (3, 2), slice(15, 21)),
        ("scale", (), slice(21, 22)),
    ]
    assert (len(NET), list(NET), "scale" in NET, "scales" in NET) == (4, list(NET.shapes()), True, False)
    assert NET["hidden_0/bias"].place == slice(12, 15)
    assert ParameterTable({}).size == 0


def test_views_are_no_copies() -> None:
    vector = np.arange(22, dtype=np.float32)
    views = NET.views(vector)
    views["hidden_0/weight"][...] = -1
    views["scale"][...] = 7
    assert (vector[:12] == -1).all() and vector[21] == 7
    assert {name: view.shape for name, view in views.items()} == NET.shapes()


def test_a_vector_of_values() -> None:
    values = {name: np.full(entry.shape, k, np.float64) for k, (name, entry) in enumerate(NET.items())}
    vector = NET.vector(values)
    assert vector.dtype == np.float32 and vector.tolist() == [0] * 12 + [1] * 3 + [2] * 6 + [3]
    assert NET.vector(values, np.float64).dtype == np.float64


def test_tables_are_joined_under_prefixes() -> None:
    both = ParameterTable.joined({"policy": NET, "value": NET})
    assert both.size == 44
    assert list(both)[3:5] == ["policy/scale", "value/hidden_0/weight"]
    assert both["value/scale"].place == slice(43, 44)
    assert next(iter(NET.prefixed("a"))) == "a/hidden_0/weight"
    assert both.part("value") == (NET, slice(22, 44)) == both.part("value/")
    assert ParameterTable.joined({"policy": NET}) == NET.prefixed("policy")
    assert both != NET and NET != "table"


def test_masks_join_what_touches() -> None:
    both = ParameterTable.joined({"policy": NET, "value": NET})
    assert both.mask(["policy"]) == [slice(0, 22)] == both.mask(["policy/"]) == both.mask(["policy/*"])
    assert both.mask(["*/bias"]) == [slice(12, 15), slice(34, 37)]
    assert both.mask(["policy/hidden_0", "value/scale"]) == [slice(0, 15), slice(43, 44)]
    assert both.mask(["pol"]) == []
    assert both.mask(["*"]) == [slice(0, 44)]


def test_patterns() -> None:
    assert matches("policy/bias", "policy") and matches("policy/bias", "policy/bias") and matches("a/b/c", "*/c")
    assert not matches("policy_2/bias", "policy") and not matches("policy/bias", "policy/bia")
    assert matches("policy/0", "policy/[01]") and matches("policy/0", "policy/?")


def test_tables_travel() -> None:
    again = pickle.loads(pickle.dumps(NET))
    assert again == NET and again.size == NET.size
    assert ParameterTable(NET.shapes()) == NET
    assert eval(repr(NET)) == NET


def test_errors_name_the_parameter() -> None:
    with pytest.raises(ModuleError, match=r"vector of parameters has shape \(3,\), and the table hidden_0/w.*\(22,\)"):
        NET.views(np.zeros(3))
    with pytest.raises(ModuleError, match="no parameter 'bias': there are hidden_0/weight, hidden_0/bias"):
        NET["bias"]
    values = {name: np.zeros(entry.shape) for name, entry in NET.items()}
    with pytest.raises(ModuleError, match="no parameter 'extra'"):
        NET.vector({**values, "extra": 1})
    with pytest.raises(ModuleError, match=r"'scale' has shape \(\), and was given values of \(2,\)"):
        NET.vector({**values, "scale": [1, 2]})
    del values["scale"]
    with pytest.raises(ModuleError, match="value of parameter 'scale' is missing"):
        NET.vector(values)
    with pytest.raises(ModuleError, match=r"'x' was given the shape \(-1, 2\)"):
        ParameterTable({"x": (-1, 2)})
    with pytest.raises(ModuleError, match="below 'value' are asked for, and there are none"):
        NET.part("value")
    mixed = ParameterTable({"a/x": (1,), "b/x": (1,), "a/y": (1,)})
    with pytest.raises(ModuleError, match="below 'a' are asked for, and others stand between them: there are a/x, b/x"):
        mixed.part("a")
    with pytest.raises(ModuleError, match="p7 and 12 more"):
        ParameterTable({f"p{k}": (1,) for k in range(20)})["x"]
