"""Decisions of the state machine that the suite of every store leaves open, and the words of its errors."""

from __future__ import annotations

import pytest
from kernel_store_plasma.machine import StoreMachine

from kernel_spec.errors import InternalError, ObjectStoreError, ObjectStoreFullError, OutOfDiskError, SpillError
from kernel_spec.store import (
    Abort,
    Create,
    Delete,
    DeleteSpill,
    Failed,
    Pin,
    ReadSpill,
    ReleaseIdle,
    Reply,
    RestoreDone,
    RestoreFailed,
    RestoreLate,
    Seal,
    SpillDone,
    SpillFailed,
    Unpin,
    WriteSpill,
)

ME, OTHER = b"process1", b"process2"
A, B, C, D = (bytes([i]) * 20 for i in range(1, 5))


def put(machine: StoreMachine, name: bytes, size: int, pin: bool = False) -> int:
    (reply,) = machine.handle(Create(ME, 0, name, size, ME))
    assert isinstance(reply, Reply)
    machine.handle(Seal(ME, name, pin))
    return reply.value


def spill(machine: StoreMachine, instructions: list) -> list:
    """Let every spill asked for succeed; return what the machine says then."""
    names = [each.object for each in instructions if isinstance(each, WriteSpill)]
    assert names
    return [out for name in names for out in machine.handle(SpillDone(name, f"disk:{name[0]}"))]


def test_several_spills_are_in_progress_together() -> None:
    machine = StoreMachine(1024)
    for name in (A, B, C, D):
        put(machine, name, 256)
    assert [type(i) for i in machine.handle(Create(ME, 1, b"E", 512, ME))] == [WriteSpill, WriteSpill]
    assert [i.object for i in machine.handle(Create(ME, 2, b"F", 256, ME))] == [C]
    assert machine.handle(SpillDone(A, "a")) == []
    assert machine.handle(SpillDone(B, "b")) == [Reply(ME, 1, 0)]
    assert machine.handle(SpillDone(C, "c")) == [Reply(ME, 2, 512)]
    machine.validate()


def test_a_late_restore_is_no_movement_and_its_memory_is_left_alone() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024)
    spill(machine, machine.handle(Create(ME, 1, B, 1024, ME)))
    machine.handle(Abort(ME, B))
    (read,) = machine.handle(Pin(ME, 2, A))
    assert isinstance(read, ReadSpill)
    late = SpillError("it hangs")
    assert machine.handle(RestoreLate(A, late)) == [Failed(ME, 2, late)]
    assert machine.handle(RestoreLate(A, late)) == [] == machine.handle(RestoreLate(B, late))
    assert machine.handle(Pin(ME, 3, A)) == [Failed(ME, 3, late)]
    assert machine.handle(Create(ME, 4, B, 1024, ME)) == [], "the target may still write to that memory"
    (failed,) = machine.give_up_waiting()
    assert isinstance(failed, Failed) and failed.request == 4
    assert machine.handle(Delete([A])) == []
    machine.validate()
    assert machine.handle(RestoreDone(A)) == [DeleteSpill(read.uri)]
    assert machine.handle(Create(ME, 5, B, 1024, ME)) == [Reply(ME, 5, 0)]
    machine.validate()


def test_a_restored_object_is_freed_again_at_no_cost() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024)
    (reply,) = spill(machine, machine.handle(Create(ME, 1, B, 1024, ME)))
    assert isinstance(reply, Reply)
    machine.handle(Abort(ME, B))
    assert machine.handle(Pin(ME, 2, A)) == [ReadSpill(A, "disk:1", 0, 1024)]
    assert machine.handle(RestoreDone(A)) == [Reply(ME, 2, (0, 1024))]
    assert machine.handle(Unpin(ME, A)) == []
    assert machine.handle(Create(ME, 3, B, 1024, ME)) == [Reply(ME, 3, 0)]
    assert machine.usage().spilled == 1024
    assert machine.handle(Delete([A])) == [DeleteSpill("disk:1")]


def test_an_object_pinned_while_it_is_spilled_stays() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024)
    machine.handle(Create(ME, 1, B, 1024, ME))
    assert machine.handle(Pin(OTHER, 2, A)) == [Reply(OTHER, 2, (0, 1024))]
    assert machine.handle(SpillDone(A, "a")) == [ReleaseIdle()]
    assert [row.state for row in machine.objects()] == ["sealed"]
    assert machine.handle(Unpin(OTHER, A)) == [Reply(ME, 1, 0)]


def test_clients_are_asked_to_release_once_while_nothing_changes() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024, pin=True)
    assert machine.handle(Create(ME, 1, B, 1024, ME)) == [ReleaseIdle()]
    assert machine.handle(Create(ME, 2, C, 1024, ME)) == []
    machine.handle(Delete([A]))
    assert machine.handle(Unpin(ME, A)) == [Reply(ME, 1, 0)]
    assert machine.handle(Seal(ME, B, True)) == [ReleaseIdle()]


def test_a_small_object_passes_one_that_waits_for_others_to_unpin() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 512, pin=True)
    assert machine.handle(Create(OTHER, 1, B, 1024, ME)) == [ReleaseIdle()]
    assert machine.handle(Create(ME, 2, C, 256, ME)) == [Reply(ME, 2, 512)]
    assert machine.usage().waiting == 1


def test_nobody_is_given_up_while_disk_work_moves() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024)
    machine.handle(Create(ME, 1, B, 1024, ME))
    assert machine.give_up_waiting() == []
    assert machine.handle(SpillDone(A, "a")) == [Reply(ME, 1, 0)]


def test_giving_up_fails_the_largest_and_lets_the_rest_go_on() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024, pin=True)
    machine.handle(Create(ME, 1, B, 64, ME))
    machine.handle(Create(ME, 2, C, 512, ME))
    failed, asked = machine.give_up_waiting()
    assert (failed.request, asked) == (2, ReleaseIdle())
    assert isinstance(failed.error, ObjectStoreFullError)
    assert str(failed.error) == (
        f"no space for object {C.hex()} of 512 bytes: of the object store's 1024 bytes (1.0 KiB), 1024 bytes (1.0 KiB) "
        f"are taken and the largest free block has 0 bytes, and the rest can't be spilled because it is in use. "
        f"Biggest of 1 objects: {A.hex()} 1024 bytes (1.0 KiB), sealed, owner {ME.hex()}, pinned by {ME.hex()}; "
        f"drop references and views that are no longer needed, or raise object_store_memory"
    )
    assert machine.usage().waiting == 1


@pytest.mark.parametrize(
    ("cause", "kind"), [(OutOfDiskError("disk full"), OutOfDiskError), (OSError("io"), SpillError)]
)
def test_giving_up_says_why_nothing_is_spilled(cause: Exception, kind: type[Exception]) -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024)
    machine.handle(Create(ME, 1, B, 1024, ME))
    assert machine.handle(SpillFailed(A, cause)) == []
    (failed,) = machine.give_up_waiting()
    assert type(failed.error) is kind
    assert str(cause) in str(failed.error) and failed.error.__cause__ is cause


def test_a_failed_spill_is_tried_again_for_the_next_request() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 512)
    put(machine, B, 512)
    assert [i.object for i in machine.handle(Create(ME, 1, C, 512, ME))] == [A]
    assert machine.handle(SpillFailed(A, SpillError("once"))) == []
    assert [i.object for i in machine.handle(Create(ME, 2, D, 512, ME))] == [B, A]


def test_giving_up_a_restore_fails_its_readers_and_keeps_the_object() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024)
    spill(machine, machine.handle(Create(ME, 1, B, 1024, ME)))
    assert machine.handle(Pin(ME, 2, A)) == []
    assert machine.handle(Pin(OTHER, 3, A)) == []
    assert [(i.client, i.request) for i in machine.give_up_waiting()] == [(ME, 2), (OTHER, 3)]
    machine.validate()
    machine.handle(Abort(ME, B))
    assert isinstance(machine.handle(Pin(ME, 4, A))[0], ReadSpill)


def test_pins_of_two_generations_are_undone_together() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 64, pin=True)
    put(machine, A, 64, pin=True)
    assert machine.usage().used == 128
    machine.handle(Unpin(ME, A))
    assert machine.usage().used == 128, "which of the two was let go can't be told"
    machine.handle(Unpin(ME, A))
    assert machine.usage().used == 64
    machine.validate()


def test_an_object_made_anew_stays_while_the_older_one_of_its_name_is_restored() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 640)
    spill(machine, machine.handle(Create(ME, 1, B, 640, ME)))
    assert machine.handle(Pin(OTHER, 2, A)) == [], "the place of the spilled object is taken"
    machine.handle(Create(OTHER, 3, A, 64, ME))
    assert machine.handle(Seal(ME, B)) == [WriteSpill(B, 0, 640)]
    machine.handle(Seal(OTHER, A))
    assert machine.handle(SpillDone(B, "b")) == [ReadSpill(A, "disk:1", 0, 640)]
    assert machine.handle(Create(ME, 4, C, 384, ME)) == []
    machine.validate()
    assert machine.handle(RestoreDone(A)) == [Reply(OTHER, 2, (0, 640)), WriteSpill(A, 640, 64)]
    machine.validate()


def test_a_second_create_by_the_same_writer_is_refused() -> None:
    machine = StoreMachine(1024)
    machine.handle(Create(ME, 1, A, 64, ME))
    (failed,) = machine.handle(Create(ME, 2, A, 64, ME))
    assert isinstance(failed, Failed) and "seal or abort it" in str(failed.error)


def test_aborting_what_waits_answers_the_create() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 1024, pin=True)
    machine.handle(Create(OTHER, 1, B, 1024, ME))
    (failed,) = machine.handle(Abort(OTHER, B))
    assert (failed.request, type(failed.error)) == (1, ObjectStoreError)
    machine.validate()


def test_answers_to_questions_never_asked_change_nothing() -> None:
    machine = StoreMachine(1024)
    assert machine.handle(SpillDone(A, "a")) == [DeleteSpill("a")]
    for event in (
        SpillFailed(A, SpillError("")),
        RestoreDone(A),
        RestoreFailed(A, SpillError("")),
        Seal(ME, A),
        Abort(ME, A),
    ):
        assert machine.handle(event) == []
    machine.validate()


def test_an_event_of_another_kind_is_our_bug() -> None:
    with pytest.raises(InternalError, match="no event of kernel_spec"):
        StoreMachine(1024).handle("hello")  # type: ignore[arg-type]


def test_a_broken_invariant_tells_the_story() -> None:
    machine = StoreMachine(1024)
    put(machine, A, 64)
    machine.table.used += 1
    with pytest.raises(AssertionError, match=r"(?s)counted .*'used': 65.*Create\(.*Seal\("):
        machine.validate()
