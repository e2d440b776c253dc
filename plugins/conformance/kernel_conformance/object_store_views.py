"""Conformance of object stores: the memory that users see."""

from __future__ import annotations

import gc
import os

from kernel_conformance.object_store_shell import OWNER, WRITER, ignore_release
from kernel_conformance.object_store_suite import ObjectStoreSuite, name
from kernel_spec.store import Create, Reply


class StoreViews(ObjectStoreSuite):
    """Views of objects: read-only, shared between processes, and released once."""

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
        view = client.readable(reply.value, 4, ignore_release)
        assert bytes(view) == b"fork"
        memory = server.view(reply.value, 4)
        assert bytes(memory) == b"fork"
        memory[:] = b"same"
        assert bytes(view) == b"same", "a view is the memory of the store, not a copy of it"
        del view
        client.close()
        server.close()
