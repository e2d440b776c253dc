"""Conformance of object stores: what happens when more is wanted than fits."""

from __future__ import annotations

import os

from kernel_conformance.object_store_shell import READER, WRITER, StoreShell
from kernel_conformance.object_store_suite import ObjectStoreSuite, name
from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError, OutOfDiskError, SpillError
from kernel_spec.store import Abort, ClientLeft, Delete, Keep, RestoreLate, Unpin


class FullStores(ObjectStoreSuite):
    """Waiting, giving up, weak objects, and the disk."""

    def test_an_object_larger_than_the_store_fails_at_once(self) -> None:
        with self.shell(1000) as shell:
            too_much = shell.server.usage().capacity + 1
            error = self.failure(shell, shell.create(name(0), too_much), ObjectStoreFullError)
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
            text = str(self.failure(shell, request, ObjectStoreFullError))
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

    def test_a_weak_object_that_is_read_stays(self) -> None:
        with self.shell(1000) as shell:
            shell.put(name(0), b"w" * 600, weak=True)
            assert [row.weak for row in shell.server.objects()] == [True]
            view = shell.view(shell.pin(name(0)))
            request = shell.create(name(1), 600)
            assert request not in shell.answers, "there is no room while somebody reads"
            assert bytes(view) == b"w" * 600
            shell.handle(Unpin(READER, name(0)))
            shell.value(request)

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

    def test_memory_that_a_late_restore_may_write_to_is_given_to_nobody(self) -> None:
        if not self.spills:
            return
        with self.shell(1000) as shell:
            self._restore(shell)
            shell.handle(RestoreLate(name(0), SpillError("it hangs")))
            request = shell.create(name(2), 1000)
            assert request not in shell.answers, "the restore may still write to this memory"
            shell.give_up()
            self.failure(shell, request, ObjectStoreError)
            shell.do_disk_work()
            assert shell.read(name(0)) == b"x" * 1000

    def test_memory_of_an_object_that_is_deleted_while_it_is_restored_waits_for_the_disk(self) -> None:
        if not self.spills:
            return
        with self.shell(1000) as shell:
            self._restore(shell)
            shell.handle(ClientLeft(READER))
            shell.handle(Delete([name(0)]))
            request = shell.create(name(2), 1000)
            assert request not in shell.answers, "the restore still writes to this memory"
            shell.give_up()
            assert request not in shell.answers, "nobody gives up while the disk works"
            shell.do_disk_work()
            shell.value(request)
            assert not shell.disk

    @staticmethod
    def _restore(shell: StoreShell) -> None:
        """Have object 0, which fills the store, read back for `READER`, and leave the disk to its work."""
        shell.put(name(0), b"x" * 1000)
        shell.put(name(1), b"y" * 1000)
        shell.handle(Delete([name(1)]))
        shell.eager = False
        shell.pin(name(0))
