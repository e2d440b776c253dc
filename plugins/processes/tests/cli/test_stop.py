"""Which session `kernel stop NAME` ends: a program's only when nothing else can be meant."""

from __future__ import annotations

import pytest

from kernel.commands import Refusal
from kernel_processes.cli.stop_command import named_session
from kernel_processes.node.sessions import SessionDirectory

STAYS = SessionDirectory("/tmp/k/session_1_stays", 1, True)
PROGRAM = SessionDirectory("/tmp/k/session_2_program", 2, False)
BOTH = [STAYS, PROGRAM]


@pytest.mark.parametrize("name", ["", " ", "/", "//"])
@pytest.mark.parametrize("ending", [[], [STAYS], BOTH])
def test_an_empty_name_names_nothing(name: str, ending: list[SessionDirectory]) -> None:
    with pytest.raises(Refusal, match="is not the name of a session"):
        named_session(name, ending, BOTH)


@pytest.mark.parametrize("name", ["session_2_program", "/tmp/k/session_2_program", "/tmp/k/session_2_program/"])
def test_a_programs_session_is_named_in_full(name: str) -> None:
    assert named_session(name, [STAYS], BOTH) == PROGRAM


def test_a_part_means_a_session_that_stays() -> None:
    assert named_session("session_", [STAYS], BOTH) == STAYS
    with pytest.raises(Refusal, match="'prog' is a part of session_2_program: a program's session needs its full"):
        named_session("prog", [STAYS], BOTH)


def test_with_all_a_part_may_mean_any() -> None:
    assert named_session("prog", BOTH, BOTH) == PROGRAM
    with pytest.raises(Refusal, match="fits 2 sessions"):
        named_session("session_", BOTH, BOTH)


def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(Refusal, match="there is no session 'x'; there are session_2_program"):
        named_session("x", [], [PROGRAM])
