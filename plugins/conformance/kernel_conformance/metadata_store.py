"""The conformance suite for metadata stores.

    from kernel_conformance.metadata_store import MetadataStoreConformance

    class TestMine(MetadataStoreConformance):
        make_store = staticmethod(MyStore)

`make_store` takes a directory, as the hook's factory does. Run it with pytest.
"""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel_spec.errors import HeadReplacedError, MetadataError
from kernel_spec.metadata import LastingMetadataStore, MetadataStore


class MetadataStoreConformance:
    """Every metadata store's tests. `make_store` opens the store that belongs to a directory."""

    make_store: Callable[[str], MetadataStore]

    large_value_bytes = 16_000_000
    """The largest value that must fit."""
    fuzz_seeds = range(5)
    """Seeds of the random histories; a failure prints the one that repeats it."""

    @contextmanager
    def store(self) -> Iterator[MetadataStore]:
        """Open an empty store for one test."""
        with tempfile.TemporaryDirectory() as directory:
            store = type(self).make_store(directory)
            try:
                yield store
            finally:
                store.close()

    def test_is_a_metadata_store_with_a_name(self) -> None:
        with self.store() as store:
            assert isinstance(store, MetadataStore), f"{type(store).__name__} lacks a method of MetadataStore"
            assert isinstance(store.name, str) and store.name, "a metadata store needs a name"
            assert isinstance(store.durable, bool), "durable says whether what was stored survives the process"

    def test_what_was_put_can_be_got(self) -> None:
        with self.store() as store:
            assert store.get("table", b"key") is None, "an empty store has no keys"
            assert store.put("table", b"key", b"value") is True
            assert store.get("table", b"key") == b"value"
            assert store.put("table", b"key", b"other") is True
            assert store.get("table", b"key") == b"other", "a second put replaces the value"

    def test_put_can_leave_what_is_there(self) -> None:
        with self.store() as store:
            assert store.put("table", b"key", b"first", overwrite=False) is True
            assert store.put("table", b"key", b"second", overwrite=False) is False
            assert store.get("table", b"key") == b"first", "with overwrite=False the first value stays"

    def test_delete_says_whether_the_key_was_there(self) -> None:
        with self.store() as store:
            store.put("table", b"key", b"value")
            assert store.delete("table", b"key") is True
            assert store.delete("table", b"key") is False
            assert store.get("table", b"key") is None
            assert store.put("table", b"key", b"again", overwrite=False) is True, "a deleted key is free"

    def test_tables_are_apart(self) -> None:
        with self.store() as store:
            store.put("one", b"key", b"1")
            store.put("two", b"key", b"2")
            assert (store.get("one", b"key"), store.get("two", b"key")) == (b"1", b"2")
            assert list(store.scan("three")) == []
            store.delete("one", b"key")
            assert store.get("two", b"key") == b"2"

    def test_any_bytes_are_keys_and_values(self) -> None:
        with self.store() as store:
            odd = [b"", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", "naïve".encode(), b"a'b\"c", bytes(range(256))]
            for key in odd:
                store.put("täble ' ;", key, key[::-1])
            assert all(store.get("täble ' ;", key) == key[::-1] for key in odd)
            assert [key for key, _ in store.scan("täble ' ;")] == sorted(odd)

    def test_scan_finds_a_prefix_in_key_order(self) -> None:
        with self.store() as store:
            for key in (b"b", b"ab", b"a", b"a\xff", b"a\xff\xff", b"aa", b"\xff", b"\xffz", b"A"):
                store.put("table", key, key * 2)
            assert list(store.scan("table", b"a")) == [
                (key, key * 2) for key in (b"a", b"aa", b"ab", b"a\xff", b"a\xff\xff")
            ]
            assert [key for key, _ in store.scan("table", b"a\xff")] == [b"a\xff", b"a\xff\xff"]
            assert [key for key, _ in store.scan("table", b"\xff")] == [b"\xff", b"\xffz"]
            assert len(list(store.scan("table"))) == 9
            assert list(store.scan("table", b"zz")) == []

    def test_scan_shows_the_moment_of_the_call(self) -> None:
        with self.store() as store:
            store.put_many("table", {b"1": b"a", b"2": b"b", b"3": b"c"})
            pairs = store.scan("table")
            store.put("table", b"2", b"changed")
            store.delete("table", b"3")
            store.put("table", b"4", b"new")
            assert list(pairs) == [(b"1", b"a"), (b"2", b"b"), (b"3", b"c")], "changes after the call must not show"

    def test_put_many_stores_all_or_nothing(self) -> None:
        with self.store() as store:
            store.put("table", b"1", b"old")
            store.put_many("table", {b"1": b"new", b"2": b"two"})
            assert list(store.scan("table")) == [(b"1", b"new"), (b"2", b"two")]
            store.put_many("table", {})
            bad = {b"1": b"worse", b"3": object()}
            try:
                store.put_many("table", bad)  # type: ignore[arg-type]
            except (MetadataError, TypeError, ValueError):
                pass
            else:
                raise AssertionError("a value that is not bytes was taken")
            assert list(store.scan("table")) == [(b"1", b"new"), (b"2", b"two")], "part of a failed put_many is there"
            store.put("table", b"4", b"four")
            assert store.get("table", b"4") == b"four", "the store is of no use after a failed put_many"

    def test_large_values_fit(self) -> None:
        with self.store() as store:
            value = random.Random(1).randbytes(1000) * (self.large_value_bytes // 1000)
            store.put("table", b"large", value)
            assert store.get("table", b"large") == value

    def test_a_caller_may_change_its_buffer_afterwards(self) -> None:
        with self.store() as store:
            buffer = bytearray(b"before")
            store.put("table", b"key", buffer)  # type: ignore[arg-type]
            buffer[:] = b"after!"
            assert store.get("table", b"key") == b"before", "the store kept the caller's buffer instead of its bytes"

    def test_threads_do_not_get_in_each_others_way(self) -> None:
        with self.store() as store:
            won: list[int] = []

            def work(number: int) -> None:
                for turn in range(20):
                    store.put("table", b"%d.%d" % (number, turn), b"x")
                if store.put("table", b"leader", b"%d" % number, overwrite=False):
                    won.append(number)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(list(store.scan("table"))) == 4 * 20 + 1
            assert len(won) == 1, f"{len(won)} threads were told that they were first"

    def test_nothing_works_after_close(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            store = type(self).make_store(directory)
            store.close()
            for call in (lambda: store.get("table", b"key"), lambda: store.put("table", b"key", b"value")):
                try:
                    call()
                except MetadataError:
                    continue
                raise AssertionError("a closed store answered instead of raising MetadataError")

    def test_a_durable_store_can_be_opened_again(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            store = type(self).make_store(directory)
            store.put("table", b"key", b"value")
            store.put_many("table", {b"1": b"a", b"2": b"b"})
            store.delete("table", b"1")
            durable = store.durable
            store.close()
            again = type(self).make_store(directory)
            found = list(again.scan("table"))
            again.close()
            expected = [(b"2", b"b"), (b"key", b"value")] if durable else []
            assert found == expected, f"durable is {durable}, and after opening again there is {found}"

    def test_claims_have_rising_epochs(self) -> None:
        with self.store() as store:
            if isinstance(store, LastingMetadataStore):
                store.put("table", b"before", b"anybody may write")
                epochs = [store.claim(b"first"), store.claim(b"second")]
                assert 0 < epochs[0] < epochs[1], f"the epochs of two claims are {epochs}"
                store.put("table", b"key", b"value")
                assert [key for key, _ in store.scan("table")] == [b"before", b"key"], "a claim is not in any table"

    def test_a_claim_outlives_the_one_who_made_it(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            store = type(self).make_store(directory)
            if not (isinstance(store, LastingMetadataStore) and store.durable):
                store.close()
                return
            epoch = store.claim("the first héad".encode())
            store.put("table", b"key", b"value")
            store.close()
            again = type(self).make_store(directory)
            assert isinstance(again, LastingMetadataStore)
            _is_refused(again, "the first héad")
            assert list(again.scan("table")) == [(b"key", b"value")]
            assert again.claim(b"the second head") > epoch
            again.put("table", b"key", b"changed")
            assert again.get("table", b"key") == b"changed"
            again.close()

    def test_who_was_replaced_can_not_write(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            old = type(self).make_store(directory)
            try:
                new = type(self).make_store(directory)
            except MetadataError:  # it lets nobody in before this one has ended, which is as good
                old.close()
                return
            if old.durable and isinstance(old, LastingMetadataStore) and isinstance(new, LastingMetadataStore):
                old.claim(b"the old head")
                old.put("table", b"key", b"value")
                epoch = new.claim(b"the new head")
                _is_refused(old, "the new head")
                assert list(old.scan("table")) == [(b"key", b"value")]
                new.put("table", b"key", b"changed")
                assert old.claim(b"the old head") > epoch
                _is_refused(new, "the old head")
                new.discard()
                assert old.get("table", b"key") == b"changed", "a head that was replaced discarded what is not its own"
                old.put("table", b"key", b"mine again")
            else:
                new.close()
            old.close()

    def test_discarded_is_closed(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            store = type(self).make_store(directory)
            if not isinstance(store, LastingMetadataStore):
                store.close()
                return
            store.claim(b"head")
            store.put_many("table", {b"1": b"a", b"2": b"b"})
            store.discard()
            try:
                store.get("table", b"1")
            except MetadataError:
                return
            raise AssertionError("a discarded store answered instead of raising MetadataError")

    def test_random_histories(self) -> None:
        for seed in self.fuzz_seeds:
            with self.store() as store:
                try:
                    _random_history(store, random.Random(seed))
                except AssertionError as broken:
                    raise AssertionError(f"with seed {seed}: {broken}") from broken


def _is_refused(store: MetadataStore, owner: str) -> None:
    """Check that every change is refused with the name of the owner, and that nothing changes."""
    before = list(store.scan("table"))
    changes: list[Callable[[], object]] = [
        lambda: store.put("table", b"key", b"intruder"),
        lambda: store.put("table", b"new", b"intruder", overwrite=False),
        lambda: store.put_many("table", {b"key": b"intruder", b"other": b"intruder"}),
        lambda: store.delete("table", b"key"),
    ]
    for change in changes:
        try:
            change()
        except HeadReplacedError as error:
            assert owner in str(error), f"the error does not name {owner!r}: {error}"
        else:
            raise AssertionError("a store that another has claimed was changed")
    assert list(store.scan("table")) == before, "a refused change was made"


def _random_history(store: MetadataStore, dice: random.Random) -> None:
    model: dict[str, dict[bytes, bytes]] = {"one": {}, "two": {}}
    for _ in range(300):
        table, key, value = dice.choice(["one", "two"]), dice.randbytes(dice.choice([0, 1, 1, 2])), dice.randbytes(3)
        entries = model[table]
        kind = dice.randrange(5)
        if kind == 0:
            overwrite = dice.random() < 0.5
            stored = store.put(table, key, value, overwrite=overwrite)
            assert stored == (overwrite or key not in entries), f"put({key!r}, overwrite={overwrite}) gave {stored}"
            if stored:
                entries[key] = value
        elif kind == 1:
            items = {dice.randbytes(1): value for _ in range(3)}
            store.put_many(table, items)
            entries.update(items)
        elif kind == 2:
            assert store.delete(table, key) == (entries.pop(key, None) is not None), f"delete({key!r})"
        elif kind == 3:
            assert store.get(table, key) == entries.get(key), f"get({key!r})"
        else:
            expected = sorted(pair for pair in entries.items() if pair[0].startswith(key))
            assert list(store.scan(table, key)) == expected, f"scan({key!r})"
