"""Wrong implementations of each contract: the suite that plugin authors run must fail every one of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kernel_conformance.cli import plugin_check

from kernel.defaults.accelerator import NullAccelerator
from kernel.defaults.memory_guard import LocalMemoryGuard
from kernel.defaults.metadata import LocalMetadataStore
from kernel.defaults.provider import ManualNodeProvider
from kernel.defaults.spill import DiskSpill
from kernel.environments.variables import EnvironmentVariables
from kernel_spec.accelerators import Device
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import NodeProviderError, RuntimeEnvError
from kernel_spec.memory_guards import ENDING, EndForMemory
from kernel_spec.memory_words import OUT_OF_MEMORY
from kernel_spec.metrics import FamilySnapshot
from kernel_spec.observers import LifecycleEvent
from kernel_spec.providers import INVALID, Interruption, KindDetails
from kernel_spec.serialization import Payload, SerializerBase

KINDS = {"kinds": {"small": {"CPU": 1}}}
IMPATIENT = {"configuration": KINDS, "gone_seconds": 0.2, "running_seconds": 0.2}


# -- node providers ------------------------------------------------------------------------------------------------


class Runs(ManualNodeProvider):
    """Right: what it makes runs at once."""

    def list(self) -> Any:
        return [replace(node, state="running", address="10.0.0.1") for node in super().list()]


class MakesNothing(Runs):
    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        super().create(kind, count, join)
        self._nodes.clear()
        return [f"ghost-{number}" for number in range(count)]


class MakesOne(Runs):
    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        return super().create(kind, min(count, 1), join)


class TerminatesNothing(Runs):
    def terminate(self, ids: Sequence[str]) -> None:
        return None


class TerminatesAll(Runs):
    def terminate(self, ids: Sequence[str]) -> None:
        if ids:
            self._nodes.clear()


class UsesIdsAgain(Runs):
    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        self._made = len(self._nodes)
        return super().create(kind, count, join)


class TakesAnyKind(Runs):
    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        return super().create("small", count, join)


class FailsForStrangers(Runs):
    def terminate(self, ids: Sequence[str]) -> None:
        for id in ids:
            del self._nodes[id]


class InventsStates(Runs):
    def list(self) -> Any:
        return [replace(node, state="fine") for node in super().list()]


class ForgetsTheKind(Runs):
    def list(self) -> Any:
        return [replace(node, kind="") for node in super().list()]


class NeverRuns(ManualNodeProvider):
    """Notes what was asked for, and makes no machine."""


class Fails(Runs):
    def list(self) -> Any:
        return [replace(node, state="failed", problem="no quota") for node in super().list()]


class HasAll(Runs):
    """Right: it has all that a provider may have besides."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        super().__init__(configuration)
        self.tokens: dict[str, Sequence[str]] = {}

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        if not token or token not in self.tokens:
            self.tokens[token] = super().create(kind, count, join)
        return self.tokens[token]

    def describe(self, kind: str) -> KindDetails:
        if kind not in self.kinds():
            raise NodeProviderError(f"there is no kind {kind!r}", code=INVALID)
        return KindDetails(0.25, zone="a", labels={"zone": "a"})

    def events(self) -> Sequence[Interruption]:
        return ()


class SaysNoCode(Runs):
    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        try:
            return super().create(kind, count, join)
        except NodeProviderError as error:
            raise NodeProviderError(*error.args) from None


class HasIdsThatAreNoLabels(Runs):
    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        made = super().create(kind, count, join)
        self._nodes |= {f"/{id}": replace(self._nodes.pop(id), id=f"/{id}") for id in made}
        return [f"/{id}" for id in made]


class ForgetsTokens(HasAll):
    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        return super().create(kind, count, join)


class TakesTokensForOne(HasAll):
    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        return super().create(kind, count, join, token and "the only one")


class DescribesAnyKind(HasAll):
    def describe(self, kind: str) -> KindDetails:
        return KindDetails(1.0)


class PaysForNodes(HasAll):
    def describe(self, kind: str) -> KindDetails:
        return replace(super().describe(kind), price=-1.0)


class InterruptsForNothing(HasAll):
    def events(self) -> Sequence[Interruption]:
        return [Interruption("manual-1", 120.0, "somebody pays more")]


PROVIDERS = [
    SaysNoCode, HasIdsThatAreNoLabels, ForgetsTokens, TakesTokensForOne, DescribesAnyKind, PaysForNodes,
    InterruptsForNothing,
    NeverRuns, Fails,
    MakesNothing, MakesOne, TerminatesNothing, TerminatesAll, UsesIdsAgain, TakesAnyKind, FailsForStrangers,
    InventsStates, ForgetsTheKind,
]  # fmt: skip


# -- spill targets -------------------------------------------------------------------------------------------------


class KeepsTheMemory(DiskSpill):
    """Reads what the memory holds later, not what it held."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.kept: dict[str, memoryview] = {}

    def write(self, object: Any, data: memoryview) -> str:
        uri = super().write(object, data)
        self.kept[uri] = data
        return uri

    def read_into(self, uri: str, data: memoryview) -> None:
        super().read_into(uri, data)
        data[:] = self.kept[uri]


class DeletesNothing(DiskSpill):
    def delete(self, uri: str) -> None:
        return None

    delete_many = None  # type: ignore[assignment]


class LeavesAll(DiskSpill):
    def close(self) -> None:
        return None


class OneUri(DiskSpill):
    """Keeps one copy, of whatever was written last."""

    def write(self, object: Any, data: memoryview) -> str:
        self.last = super().write(object, data)
        return "mine:1"

    def read_into(self, uri: str, data: memoryview) -> None:
        super().read_into(self.last if uri == "mine:1" else uri, data)

    def delete(self, uri: str) -> None:
        super().delete(self.last if uri == "mine:1" else uri)


class ReadsNothing(DiskSpill):
    def read_into(self, uri: str, data: memoryview) -> None:
        return None


class ReadsWhatFits(DiskSpill):
    """Takes a copy of another length for the object."""

    def read_into(self, uri: str, data: memoryview) -> None:
        path = uri.removeprefix("file://")
        if not os.path.exists(path):
            super().read_into(uri, data)
        with open(path, "rb") as file:
            found = file.read(len(data))
        data[: len(found)] = found


class LosesTheEnd(DiskSpill):
    def read_into(self, uri: str, data: memoryview) -> None:
        super().read_into(uri, data)
        data[-1:] = b"?"


SPILLS = [KeepsTheMemory, DeletesNothing, LeavesAll, OneUri, ReadsNothing, ReadsWhatFits, LosesTheEnd]


# -- metadata stores -----------------------------------------------------------------------------------------------


class OverwritesAlways(LocalMetadataStore):
    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        return super().put(table, key, value)


class OverwritesNever(LocalMetadataStore):
    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        return super().put(table, key, value, overwrite=False)


class DeletesKeysNot(LocalMetadataStore):
    def delete(self, table: str, key: bytes) -> bool:
        return super().get(table, key) is not None


class OneTable(LocalMetadataStore):
    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        return super().put("all", key, value, overwrite=overwrite)

    def get(self, table: str, key: bytes) -> bytes | None:
        return super().get("all", key)


class ScansWithoutOrder(LocalMetadataStore):
    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return reversed(list(super().scan(table, prefix)))


class ScansAll(LocalMetadataStore):
    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return super().scan(table)


class StoresAPart(LocalMetadataStore):
    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        for key, value in items.items():
            self.put(table, key, bytes(value) if isinstance(value, bytes) else value)


class StaysOpen(LocalMetadataStore):
    def close(self) -> None:
        return None


class ClaimsToLast(LocalMetadataStore):
    durable = True


METADATA = [
    OverwritesAlways, OverwritesNever, DeletesKeysNot, OneTable, ScansWithoutOrder, ScansAll, StoresAPart, StaysOpen,
    ClaimsToLast,
]  # fmt: skip


# -- serializers ---------------------------------------------------------------------------------------------------


class Marking(SerializerBase):
    """Right: puts a byte before the head."""

    name = "marking"

    def encode(self, payload: Payload) -> Payload:
        return Payload(b"m" + payload.head, payload.buffers)

    def decode(self, head: Any, buffers: Sequence[Any]) -> Payload:
        if bytes(head[:1]) != b"m":
            raise ValueError("no mark")
        return Payload(bytes(head[1:]), list(buffers))


class LosesBuffers(Marking):
    def encode(self, payload: Payload) -> Payload:
        return Payload(b"m" + payload.head, payload.buffers[:1])


class ChangesThePayload(Marking):
    def encode(self, payload: Payload) -> Payload:
        payload.head = b"m" + payload.head
        return Payload(payload.head, payload.buffers)


class SwapsBuffers(Marking):
    def decode(self, head: Any, buffers: Sequence[Any]) -> Payload:
        return Payload(super().decode(head, buffers).head, list(buffers)[::-1])


class KeepsState(Marking):
    """Reads in the process that wrote alone."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []

    def encode(self, payload: Payload) -> Payload:
        self.heads.append(payload.head)
        return Payload(b"m%d" % (len(self.heads) - 1), payload.buffers)

    def decode(self, head: Any, buffers: Sequence[Any]) -> Payload:
        return Payload(self.heads[int(bytes(head[1:]))], list(buffers))


class NoBytes(Marking):
    def encode(self, payload: Payload) -> Payload:
        return Payload(bytearray(b"m" + payload.head), payload.buffers)  # type: ignore[arg-type]


class BadName(Marking):
    name = "not a name"


class ReducesWrongly(SerializerBase):
    name = "wrong"

    def reducers(self) -> Mapping[str, Callable[[Any], Any]]:
        return {"bytearray": lambda value: (bytearray, (bytes(value),))}


SERIALIZERS = [LosesBuffers, ChangesThePayload, SwapsBuffers, KeepsState, NoBytes, BadName, ReducesWrongly]


# -- accelerators, observers ---------------------------------------------------------------------------------------


class TwoDevices(NullAccelerator):
    def __init__(self) -> None:
        super().__init__(2)


class CountsFromOne(TwoDevices):
    def detect(self, environment: Mapping[str, str]) -> Sequence[Device]:
        return [replace(device, index=device.index + 1) for device in super().detect(environment)]


class OneIdForAll(TwoDevices):
    def detect(self, environment: Mapping[str, str]) -> Sequence[Device]:
        return [replace(device, id="same") for device in super().detect(environment)]


class SeesAll(TwoDevices):
    """Isolates nothing."""

    def isolate(self, devices: Any, shares: Any, environment: Any) -> dict[str, str]:
        return {}


class HidesFromNobody(TwoDevices):
    """Hides all devices also where none was assigned."""

    def isolate(self, devices: Any, shares: Any, environment: Any) -> dict[str, str]:
        return super().isolate(devices, shares, environment) if devices else {"SOME_VISIBLE_DEVICES": ""}


class IsTheKernels(TwoDevices):
    def __init__(self) -> None:
        super().__init__()
        self.resource = "CPU"


class ChangesTheEnvironment(TwoDevices):
    def isolate(self, devices: Any, shares: Any, environment: Any) -> dict[str, str]:
        found = super().isolate(devices, shares, environment)
        environment.update(found)
        return found


ACCELERATORS = [CountsFromOne, OneIdForAll, SeesAll, HidesFromNobody, IsTheKernels, ChangesTheEnvironment]


class Quiet:
    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        return None


class NeedsAPid(Quiet):
    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        assert all(event.detail["pid"] >= 0 for event in events)


class NeedsEvents(Quiet):
    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        assert events[0]


class TakesThemAway(Quiet):
    def observe(self, events: Any) -> None:
        if isinstance(events, list):
            events.clear()


class KnowsTheKinds(Quiet):
    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        known = {"node", "worker", "actor", "task", "object", "placement_group"}
        assert known.issuperset(event.kind for event in events)


class NeedsOrder(Quiet):
    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        assert [event.time for event in events] == sorted(event.time for event in events)


class Silent:
    interval = 1.0

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        return None

    def close(self) -> None:
        return None


class NeverTold(Silent):
    interval = float("nan")


class ClosesOnceOnly(Silent):
    took = False

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        self.took = True

    def close(self) -> None:
        assert self.took


class NeedsMetrics(Silent):
    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        assert families[0]


class SortsThem(Silent):
    def take(self, now: float, families: Any) -> None:
        families.sort(reverse=True)


class KnowsTheMetrics(Silent):
    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        assert all(family.kind in ("counter", "gauge", "histogram") for family in families)


class NeedsWholeNumbers(Silent):
    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        assert all(int(value) == value for family in families if family.kind == "gauge" for _, value in family.samples)


class ExpectsGrowth(Silent):
    before = 0.0

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        total = sum(value for family in families if family.kind == "counter" for _, value in family.samples)
        assert total >= self.before
        self.before = total


SINKS = [NeverTold, ClosesOnceOnly, NeedsMetrics, SortsThem, KnowsTheMetrics, NeedsWholeNumbers, ExpectsGrowth]
OBSERVERS = [NeedsAPid, NeedsEvents, TakesThemAway, KnowsTheKinds, NeedsOrder]


class EndsNobody(LocalMemoryGuard):
    def sample(self, now: float, limits: Any, workers: Any) -> Any:
        return []


class EndsAlways(LocalMemoryGuard):
    def sample(self, now: float, limits: Any, workers: Any) -> Any:
        return [EndForMemory(worker.id, OUT_OF_MEMORY, "in the way") for worker in workers if worker.kind != ENDING]


class EndsTwice(LocalMemoryGuard):
    def sample(self, now: float, limits: Any, workers: Any) -> Any:
        return [step for step in super().sample(now, limits, workers) for _ in range(2)]


class EndsWhatEnds(LocalMemoryGuard):
    def sample(self, now: float, limits: Any, workers: Any) -> Any:
        if not self.needs_sizes(limits):
            return []
        return [EndForMemory(worker.id, OUT_OF_MEMORY, "again") for worker in workers]


class IgnoresQuotas(LocalMemoryGuard):
    def is_bound(self, kind: str) -> bool:
        return False


class BindsAll(LocalMemoryGuard):
    def is_bound(self, kind: str) -> bool:
        return True


class WaitsForNothing(LocalMemoryGuard):
    def wait(self, limits: Any) -> float:
        return 0.0


class HasItsOwnFaults(LocalMemoryGuard):
    def sample(self, now: float, limits: Any, workers: Any) -> Any:
        steps = super().sample(now, limits, workers)
        return [replace(step, fault="bad luck") if isinstance(step, EndForMemory) else step for step in steps]


GUARDS = [
    EndsNobody, EndsAlways, EndsTwice, EndsWhatEnds, IgnoresQuotas, BindsAll, WaitsForNothing, HasItsOwnFaults
]  # fmt: skip


class Words(EnvironmentVariables):
    """Right: what builds nothing."""

    field = "words"

    def check(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise RuntimeEnvError(f"runtime_env['words'] must be a dict, not {value!r}")


class TakesAnything(Words):
    def check(self, value: Any) -> None:
        return None


class NamesNoField(Words):
    def check(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise RuntimeEnvError("that is wrong")


class IsNotPlain(Words):
    def prepare(self, value: Any, program: Any) -> Any:
        return {name: (text,) for name, text in value.items()}


class ChangesWhatIsGiven(Words):
    def prepare(self, value: Any, program: Any) -> Any:
        value["MORE"] = "more"
        return dict(value)


class GrowsEachTime(Words):
    def prepare(self, value: Any, program: Any) -> Any:
        return {name: f"{text}!" for name, text in value.items()}


class IsNeverTheSame(Words):
    def prepare(self, value: Any, program: Any) -> Any:
        return {**value, "SALT": os.urandom(8).hex()}


class PacksNothing(Words):
    def packages(self, prepared: Any) -> Sequence[str]:
        return ["package:0123"]


class CanNotTravel(Words):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class MeansNothing(Words):
    def prepare(self, value: Any, program: Any) -> Any:
        return {}


class StartsNowhere(Words):
    def build(self, prepared: Any, place: Any) -> Any:
        return WorkerStart(paths=("/nowhere/at/all",))


BUILDERS = [
    TakesAnything, NamesNoField, IsNotPlain, ChangesWhatIsGiven, GrowsEachTime, IsNeverTheSame, PacksNothing,
    CanNotTravel, MeansNothing, StartsNowhere,
]  # fmt: skip
WORDS = {"values": ({"A": "a"}, {}), "wrong_values": (5,)}

MUTANTS: list[tuple[str, Any, dict[str, Any]]] = [
    *(
        ("node_provider", mutant, {"configuration": KINDS, "gone_seconds": 0.2, "running_seconds": 0.2})
        for mutant in PROVIDERS
    ),
    *(("spill_target", mutant, {}) for mutant in SPILLS),
    *(("metadata_store", lambda directory, mutant=mutant: mutant(), {}) for mutant in METADATA),
    *(("serializer", mutant, {}) for mutant in SERIALIZERS),
    *(("accelerator", mutant, {"least_devices": 2}) for mutant in ACCELERATORS),
    *(("observer", mutant, {}) for mutant in OBSERVERS),
    *(("metrics_sink", mutant, {}) for mutant in SINKS),
    *(("memory_guard", mutant, {}) for mutant in GUARDS),
    *(("environment", mutant, WORDS) for mutant in BUILDERS),
]
RIGHT: list[tuple[str, Any, dict[str, Any]]] = [
    ("node_provider", Runs, {"configuration": KINDS}),
    ("node_provider", HasAll, {"configuration": KINDS}),
    ("spill_target", DiskSpill, {}),
    ("metadata_store", lambda directory: LocalMetadataStore(), {}),
    ("serializer", Marking, {}),
    ("accelerator", TwoDevices, {"least_devices": 2}),
    ("observer", Quiet, {}),
    ("metrics_sink", Silent, {}),
    ("memory_guard", LocalMemoryGuard, {}),
    ("environment", Words, WORDS),
]
NAMES = [
    each.__name__
    for each in (*PROVIDERS, *SPILLS, *METADATA, *SERIALIZERS, *ACCELERATORS, *OBSERVERS, *SINKS, *GUARDS, *BUILDERS)
]


def failures(kind: str, make: Any, flags: dict[str, Any]) -> list[str]:
    """Return the titles of the checks that an implementation fails."""
    checks = plugin_check._suite_checks(kind, kind, make, flags)
    return [outcome.check.title for outcome in plugin_check.run(checks) if outcome.problem]


@pytest.mark.parametrize(("kind", "make", "flags"), MUTANTS, ids=NAMES)
def test_a_wrong_implementation_fails_the_suite_of_its_contract(kind: str, make: Any, flags: dict[str, Any]) -> None:
    assert failures(kind, make, flags)


@pytest.mark.parametrize(("kind", "make", "flags"), RIGHT, ids=[f"{kind}-{make.__name__}" for kind, make, _ in RIGHT])
def test_the_right_ones_that_they_were_made_from_pass(kind: str, make: Any, flags: dict[str, Any]) -> None:
    assert failures(kind, make, flags) == []
