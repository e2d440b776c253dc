"""The conformance suite for object stores: what every store promises, tried through the contract alone.

    class TestMyStore(ObjectStoreConformance):
        make_store = staticmethod(lambda: MyStore())

Say what yours can do by the class attributes; tests of what it can't do return at once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel.testing.object_store_shell import OWNER, READER, WRITER, StoreShell, ignore_release
from kernel_spec.errors import ObjectLostError, ObjectStoreError, OutOfDiskError, SpillError
from kernel_spec.ids import ObjectId, TaskId, object_id
from kernel_spec.store import (
    Abort,
    ClientLeft,
    Create,
    Delete,
    Failed,
    Keep,
    ObjectStore,
    Reply,
    RestoreLate,
    Seal,
    Unpin,
)


def name(index: int) -> ObjectId:
    """Return an object id that tells its number."""
    return object_id(TaskId(b"conformance-task"), index)


class ObjectStoreConformance:
    """Subclass it, name your store, run pytest."""

    make_store: Callable[[], ObjectStore]
    """Makes the store under test."""
    spills = True
    """Whether a full store moves objects to the spill target."""
    shares_memory = True
    """Whether another process can read what this one wrote."""

    # -- the life of an object ---------------------------------------------------------------------------------

    def test_what_was_written_is_read(self) -> None:
        with self.shell(1 << 20) as shell:
            for index, size in enumerate((1, 63, 64, 65, 4096, 300_001)):
                data = os.urandom(size)
                shell.put(name(index), data)
                assert shell.read(name(index)) == data

    def test_an_object_may_fill_the_store(self) -> None:
        with self.shell(1 << 16) as shell:
            for _ in range(3):
                shell.put(name(0), b"x" * (1 << 16))
                shell.handle(Delete([name(0)]))

    def test_a_pin_waits_for_the_seal(self) -> None:
        with self.shell() as shell:
            location = shell.value(shell.create(name(0), 3))
            request = shell.pin(name(0))
            assert request not in shell.answers
            shell.client.writable(location, 3)[:] = b"abc"
            shell.handle(Seal(WRITER, name(0)))
            assert bytes(shell.view(request)) == b"abc"

    def test_a_pin_of_an_unknown_object_fails_at_once(self) -> None:
        with self.shell() as shell:
            assert name(7).hex() in str(self.failure(shell, shell.pin(name(7)), ObjectLostError))

    def test_an_aborted_object_never_existed(self) -> None:
        with self.shell() as shell:
            shell.create(name(0), 100)
            request = shell.pin(name(0))
            shell.handle(Abort(WRITER, name(0)))
            self.failure(shell, request, ObjectLostError)
            self.is_empty(shell)

    def test_a_deleted_object_is_gone(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            shell.handle(Delete([name(0), name(1)]))
            self.failure(shell, shell.pin(name(0)), ObjectLostError)
            self.is_empty(shell)

    def test_a_pinned_object_disappears_with_its_last_pin(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc", pin=True)
            location, size = shell.value(shell.pin(name(0)))
            shell.handle(Delete([name(0)]))
            self.failure(shell, shell.pin(name(0)), ObjectLostError)
            shell.handle(Unpin(WRITER, name(0)))
            assert bytes(shell.client.readable(location, size, ignore_release)) == b"abc"
            assert shell.server.usage().used == 3
            shell.handle(Unpin(READER, name(0)))
            self.is_empty(shell)

    def test_an_object_deleted_while_it_is_written_goes_with_its_seal(self) -> None:
        with self.shell() as shell:
            shell.create(name(0), 10)
            shell.handle(Delete([name(0)]))
            shell.handle(Seal(WRITER, name(0)))
            self.is_empty(shell)

    def test_a_newer_creation_takes_the_name(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"old")
            location, size = shell.value(shell.pin(name(0)))
            shell.put(name(0), b"newer")
            assert bytes(shell.client.readable(location, size, ignore_release)) == b"old"
            assert shell.read(name(0), OWNER) == b"newer"
            shell.handle(Unpin(READER, name(0)))
            assert shell.server.usage().used == 5

    def test_unpins_of_strangers_are_ignored(self) -> None:
        with self.shell() as shell:
            shell.handle(Unpin(READER, name(0)))
            shell.put(name(0), b"abc", pin=True)
            shell.handle(Unpin(READER, name(0)))
            shell.handle(Delete([name(0)]))
            assert shell.server.usage().used == 3

    def test_sizes_below_one_are_refused(self) -> None:
        with self.shell() as shell:
            for size in (0, -1):
                self.failure(shell, shell.create(name(0), size), ObjectStoreError)
            self.is_empty(shell)

    # -- processes that end ------------------------------------------------------------------------------------

    def test_a_dead_writer_loses_only_what_it_wrote(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            shell.create(name(1), 100)
            request = shell.pin(name(1))
            shell.handle(ClientLeft(WRITER))
            self.failure(shell, request, ObjectLostError)
            assert shell.read(name(0)) == b"abc"
            assert shell.server.usage().used == 3

    def test_a_dead_reader_drops_its_pins(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            shell.pin(name(0))
            shell.pin(name(0))
            shell.handle(Delete([name(0)]))
            shell.handle(ClientLeft(READER))
            self.is_empty(shell)

    def test_a_dead_owner_deletes_what_it_owned(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc", pin=True)
            shell.put(name(1), b"abc")
            shell.handle(ClientLeft(OWNER))
            assert shell.server.usage().used == 3
            shell.handle(Unpin(WRITER, name(0)))
            self.is_empty(shell)

    def test_a_dead_client_is_owed_no_answer(self) -> None:
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000, pin=True)
            request = shell.create(name(1), 1000, client=READER)
            shell.handle(ClientLeft(READER))
            shell.handle(Unpin(WRITER, name(0)))
            shell.handle(Delete([name(0)]))
            assert request not in shell.answers
            self.is_empty(shell)

    # -- counts ------------------------------------------------------------------------------------------------

    def test_counts_are_exact(self) -> None:
        with self.shell(1 << 16) as shell:
            shell.put(name(0), b"x" * 1000, pin=True)
            shell.put(name(1), b"x" * 10)
            shell.create(name(2), 100)
            usage = shell.server.usage()
            assert usage.capacity >= 1 << 16
            assert (usage.used, usage.spilled, usage.objects, usage.waiting) == (1110, 0, 3, 0)
            assert usage.reserved >= 1110
            assert usage.pinned == 1100
            rows = shell.server.objects()
            assert [(row.object, row.size, row.state) for row in rows] == [
                (name(0), 1000, "sealed"),
                (name(2), 100, "writing"),
                (name(1), 10, "sealed"),
            ]
            assert dict(rows[0].pins) == {WRITER: 1}
            assert all(row.owner == OWNER for row in rows)

    # -- a full store ------------------------------------------------------------------------------------------

    def test_an_object_larger_than_the_store_fails_at_once(self) -> None:
        with self.shell(1000) as shell:
            too_much = shell.server.usage().capacity + 1
            error = self.failure(shell, shell.create(name(0), too_much), ObjectStoreError)
            assert str(too_much) in str(error) and name(0).hex() in str(error)

    def test_a_create_waits_for_space_and_gets_it(self) -> None:
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000, pin=True)
            request = shell.create(name(1), 1000)
            assert request not in shell.answers
            assert shell.server.usage().waiting == 1
            shell.handle(Delete([name(0)]))
            shell.handle(Unpin(WRITER, name(0)))
            shell.value(request)
            assert shell.server.usage().waiting == 0

    def test_clients_are_asked_to_release_what_is_idle(self) -> None:
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000, pin=True)
            shell.create(name(1), 1000)
            assert shell.release_requests == 1
            shell.pin(name(0))
            assert shell.release_requests == 1

    def test_giving_up_names_the_biggest_holder(self) -> None:
        with self.shell(1000) as shell:
            shell.give_up()
            shell.put(name(0), b"x" * 900, pin=True)
            request = shell.create(name(1), 500)
            shell.give_up()
            text = str(self.failure(shell, request, ObjectStoreError))
            for part in ("500", name(0).hex(), "900", "object_store_memory"):
                assert part in text, f"the message lacks {part!r}: {text}"
            assert shell.server.usage().waiting == 0
            assert shell.read(name(0)) == b"x" * 900

    def test_weak_objects_go_first_and_say_so(self) -> None:
        with self.shell(1000) as shell:
            shell.put(name(0), b"s" * 400)
            shell.put(name(1), b"w" * 400, weak=True)
            shell.put(name(2), b"n" * 400)
            assert not shell.disk
            assert "weak" in str(self.failure(shell, shell.pin(name(1)), ObjectLostError))
            assert shell.read(name(0)) == b"s" * 400
            shell.handle(Delete([name(0), name(1), name(2)]))
            self.is_empty(shell)

    def test_weak_objects_may_have_to_be_kept_after_all(self) -> None:
        with self.shell(1000) as shell:
            shell.put(name(0), b"k" * 400, weak=True)
            shell.handle(Keep(name(0)))
            shell.put(name(1), b"w" * 400, weak=True)
            shell.handle(Keep(name(2)))
            shell.put(name(2), b"n" * 400)
            assert shell.read(name(0)) == b"k" * 400
            self.failure(shell, shell.pin(name(1)), ObjectLostError)
            assert {row.object: row.weak for row in shell.server.objects()} == {name(0): False, name(2): False}
            shell.handle(Delete([name(0), name(1), name(2)]))
            self.is_empty(shell)

    def test_more_than_fits_is_spilled_and_comes_back(self) -> None:
        if not self.spills:
            return
        with self.shell(1 << 16) as shell:
            values = {name(i): os.urandom(10_000 + i) for i in range(30)}
            for object, data in values.items():
                shell.put(object, data)
            usage = shell.server.usage()
            assert usage.used + usage.spilled == sum(map(len, values.values()))
            for object, data in values.items():
                assert shell.read(object) == data
            shell.handle(Delete(list(values)))
            self.is_empty(shell)
            assert not shell.disk

    def test_the_least_recently_used_is_spilled(self) -> None:
        if not self.spills:
            return
        with self.shell(1000) as shell:
            for index in range(3):
                shell.put(name(index), b"x" * 300)
            shell.read(name(0))
            shell.put(name(3), b"x" * 300)
            states = {row.object: row.state for row in shell.server.objects()}
            assert states == {name(0): "sealed", name(1): "spilled", name(2): "sealed", name(3): "sealed"}

    def test_deletes_during_disk_work_leave_nothing(self) -> None:
        if not self.spills:
            return
        with self.shell(1000, eager=False) as shell:
            shell.put(name(0), b"x" * 1000)
            first = shell.create(name(1), 1000)
            shell.handle(Delete([name(0)]))
            shell.do_disk_work()
            shell.value(first)
            shell.handle(Abort(WRITER, name(1)))
            self.is_empty(shell)
            assert not shell.disk

    def test_a_full_disk_loses_nothing(self) -> None:
        if not self.spills:
            return
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000)
            shell.disk_error = OutOfDiskError("the disk is full")
            request = shell.create(name(1), 1000)
            shell.give_up()
            assert "the disk is full" in str(self.failure(shell, request, OutOfDiskError))
            assert shell.read(name(0)) == b"x" * 1000
            shell.disk_error = None
            shell.put(name(1), b"y" * 1000)
            assert shell.read(name(0)) == b"x" * 1000

    def test_an_object_that_can_not_be_restored_is_lost(self) -> None:
        if not self.spills:
            return
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000)
            shell.put(name(1), b"y" * 1000)
            shell.handle(Delete([name(1)]))
            shell.disk_error = SpillError("the copy is gone")
            text = str(self.failure(shell, shell.pin(name(0)), ObjectLostError))
            assert "the copy is gone" in text and name(0).hex() in text
            assert shell.server.usage().used == 0
            shell.handle(Delete([name(0)]))
            self.is_empty(shell)
            assert not shell.disk

    def test_a_restore_that_is_late_keeps_its_memory_and_may_still_come(self) -> None:
        if not self.spills:
            return
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000)
            shell.put(name(1), b"y" * 1000)
            shell.handle(Delete([name(1)]))
            shell.eager = False
            first, late = shell.pin(name(0)), SpillError("it hangs")
            shell.handle(RestoreLate(name(0), late))
            assert [self.failure(shell, pin, SpillError) for pin in (first, shell.pin(name(0)))] == [late, late]
            shell.do_disk_work()
            assert shell.read(name(0)) == b"x" * 1000

    # -- memory ------------------------------------------------------------------------------------------------

    def test_views_can_not_be_written(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            view = shell.view(shell.pin(name(0)))
            assert view.readonly
            assert (view.ndim, view.itemsize, view.nbytes, view.format) == (1, 1, 3, "B")

    def test_released_fires_once_when_the_last_view_is_gone(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abcdef")
            fired: list[int] = []
            location, size = shell.value(shell.pin(name(0)))
            view = shell.client.readable(location, size, lambda: fired.append(1))
            other = shell.client.readable(location, size, lambda: fired.append(2))
            part = view[2:4]
            del view
            gc.collect()
            assert fired == []
            assert bytes(part) == b"cd"
            del part
            gc.collect()
            assert fired == [1]
            del other
            gc.collect()
            assert fired == [1, 2]

    def test_closing_with_live_views_is_safe(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            fired: list[int] = []
            view = shell.view(shell.pin(name(0)), lambda: fired.append(1))
            shell.close()
            assert bytes(view) == b"abc"
            del view
            gc.collect()
            assert fired == [1]

    def test_other_processes_read_the_same_memory(self) -> None:
        if not self.shares_memory:
            return
        store = type(self).make_store()
        server = store.open_server(1 << 16, None)
        (reply,) = server.handle(Create(WRITER, 1, name(0), 4, OWNER))
        assert isinstance(reply, Reply)
        descriptors = [os.dup(descriptor) for descriptor in server.descriptors()]
        child = os.fork()
        if child == 0:
            client = store.open_client(descriptors, server.client_options())
            client.writable(reply.value, 4)[:] = b"fork"
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        client = store.open_client(descriptors, server.client_options())
        assert bytes(client.readable(reply.value, 4, ignore_release)) == b"fork"
        assert bytes(server.view(reply.value, 4)) == b"fork"
        client.close()
        server.close()

    # -- helpers -----------------------------------------------------------------------------------------------

    @contextmanager
    def shell(self, capacity: int = 1 << 16, eager: bool = True) -> Iterator[StoreShell]:
        """Make a store with a shell around it, and close it again."""
        shell = StoreShell(type(self).make_store(), capacity, eager)
        try:
            yield shell
        finally:
            shell.close()

    @staticmethod
    def failure(shell: StoreShell, request: int, kind: type[Exception]) -> Exception:
        """Return the error a request failed with, which must be of `kind`."""
        answer = shell.answers.get(request)
        assert isinstance(answer, Failed), f"the request should have failed, the answer is {answer!r}"
        assert isinstance(answer.error, kind), f"{kind.__name__} was expected, not {answer.error!r}"
        return answer.error

    @staticmethod
    def is_empty(shell: StoreShell) -> None:
        """Check that nothing is left."""
        usage = shell.server.usage()
        counts = (usage.used, usage.reserved, usage.pinned, usage.spilled, usage.objects, usage.waiting)
        assert counts == (0, 0, 0, 0, 0, 0), f"something is left: {usage}"
        assert shell.server.objects() == []
