"""The runtime_env of programs that say none: what KERNEL_RUNTIME_ENV says."""

from __future__ import annotations

import os

import pytest

import kernel
from kernel import exceptions

SECONDS = 120.0


@kernel.remote
def variable(name: str) -> str | None:
    return os.environ.get(name)


def test_a_program_that_says_none_has_that_of_its_surroundings(fresh_session, monkeypatch) -> None:
    monkeypatch.setenv("KERNEL_RUNTIME_ENV", '{"env_vars": {"GREETING": "hello"}}')
    fresh_session()
    assert kernel.get(variable.remote("GREETING"), timeout=SECONDS) == "hello"
    kernel.shutdown()
    fresh_session(runtime_env={"env_vars": {"OTHER": "word"}})
    assert kernel.get([variable.remote("GREETING"), variable.remote("OTHER")], timeout=SECONDS) == [None, "word"]


@pytest.mark.parametrize("text", ["{", "[]", "5"])
def test_surroundings_that_say_no_environment_are_refused(fresh_session, monkeypatch, text: str) -> None:
    monkeypatch.setenv("KERNEL_RUNTIME_ENV", text)
    with pytest.raises(exceptions.OptionError, match="KERNEL_RUNTIME_ENV must be a runtime_env as JSON, such as {.pip"):
        fresh_session()
