"""Conformance of object stores: the life of an object, and of the processes that use it."""

from __future__ import annotations

import os

from kernel_conformance.object_store_shell import OWNER, READER, WRITER, ignore_release
from kernel_conformance.object_store_suite import ObjectStoreSuite, name
from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError
from kernel_spec.store import Abort, ClientLeft, Delete, Keep, Seal, Unpin


class ObjectLives(ObjectStoreSuite):
    """Objects are written, read, pinned and deleted; processes end."""

    # -- the life of an object -------------------------------------------------------------------------------------

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

    def test_each_pin_is_undone_by_one_unpin(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            pins = [shell.pin(name(0)) for _ in range(2)]
            shell.handle(Delete([name(0)]))
            shell.handle(Unpin(READER, name(0)))
            assert shell.server.usage().used == 3, "the second pin of the same process holds it"
            assert bytes(shell.view(pins[1])) == b"abc"
            shell.handle(Unpin(READER, name(0)))
            self.is_empty(shell)

    def test_bad_clients_raise_nothing(self) -> None:
        with self.shell() as shell:
            for event in (Seal(WRITER, name(0)), Abort(WRITER, name(0)), Keep(name(0)), ClientLeft(READER)):
                shell.handle(event)
            self.is_empty(shell)
            shell.put(name(0), b"abc", pin=True)
            shell.handle(Seal(WRITER, name(0)))
            assert shell.read(name(0)) == b"abc"

    def test_sizes_below_one_are_refused(self) -> None:
        with self.shell() as shell:
            for size in (0, -1):
                error = self.failure(shell, shell.create(name(0), size), ObjectStoreError)
                assert not isinstance(error, ObjectStoreFullError), "another place would not help"
            self.is_empty(shell)

    # -- processes that end ----------------------------------------------------------------------------------------

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

    def test_a_dead_reader_holds_nothing(self) -> None:
        with self.shell() as shell:
            shell.put(name(0), b"abc")
            shell.pin(name(0))
            shell.handle(ClientLeft(READER))
            assert shell.server.usage().pinned == 0
            shell.handle(Delete([name(0)]))
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

    # -- counts ----------------------------------------------------------------------------------------------------

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
