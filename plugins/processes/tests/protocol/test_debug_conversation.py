"""What a waiting debugger and whoever is attached to it say to each other."""

from __future__ import annotations

from kernel_processes.protocol.debug_conversation import ATTACHED, KEPT_CHARACTERS, OVER, RUNNING, WAITING, Conversation

ME, OTHER = b"me", b"other"


def at_prompt() -> Conversation:
    talk = Conversation()
    talk.stop()
    talk.write("> here\n")
    talk.write("(Pdb) ")
    talk.ask("(Pdb) ")
    return talk


def test_who_attaches_sees_where_it_stands_and_answers() -> None:
    talk = at_prompt()
    assert talk.state == WAITING
    assert talk.attach(ME)
    assert talk.state == ATTACHED
    assert talk.reply() == ("> here\n(Pdb) ", 1, "(Pdb) ", "")
    assert talk.take() is None
    assert talk.answer(ME, 1, "next")
    assert talk.reply() == ("", 0, "", "")
    assert talk.take() == "next"
    assert talk.state == RUNNING


def test_one_at_a_time_is_attached() -> None:
    talk = at_prompt()
    assert talk.attach(ME) and not talk.attach(OTHER)
    talk.detach(OTHER)
    assert talk.state == ATTACHED
    talk.detach(ME)
    assert talk.state == WAITING
    assert talk.attach(OTHER)
    assert talk.reply().output == "> here\n(Pdb) "


def test_what_nobody_asked_for_is_no_answer() -> None:
    talk = at_prompt()
    assert not talk.answer(OTHER, 1, "quit")
    talk.attach(ME)
    assert not talk.answer(ME, 2, "quit")
    assert talk.answer(ME, 1, "next") and not talk.answer(ME, 1, "next")
    talk.take()
    assert not talk.answer(ME, 1, "next")


def test_the_end_is_told_once_and_for_all() -> None:
    talk = at_prompt()
    talk.attach(ME)
    talk.end("it goes on")
    talk.end("it ends")
    assert talk.state == OVER
    assert talk.reply().ended == "it goes on" and talk.reply().number == 0


def test_output_that_nobody_takes_does_not_grow_without_end() -> None:
    talk = at_prompt()
    talk.attach(ME)
    talk.reply()
    talk.write("a" * KEPT_CHARACTERS)
    talk.write("b")
    assert len(output := talk.reply().output) == KEPT_CHARACTERS and output.endswith("ab")
