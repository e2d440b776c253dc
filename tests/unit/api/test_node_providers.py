"""Providers of machines are made by name, without a session."""

from __future__ import annotations

import pytest

import kernel
from kernel.exceptions import PluginNotFoundError


def test_a_provider_is_made_by_its_name_with_its_options() -> None:
    provider = kernel.make_node_provider("manual", {"kinds": {"small": {"CPU": 2}}})
    assert provider.name == "manual" and provider.kinds() == {"small": {"CPU": 2}}


def test_an_unknown_provider_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(PluginNotFoundError, match="manual"):
        kernel.make_node_provider("manuel", {})
