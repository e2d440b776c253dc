"""The protocol: what is committed is what the .proto say, all of it is documented, and all of it is answered."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from kernel_control_grpc.protocol import METHODS, VERSION, in_python, messages
from kernel_control_grpc.services import SERVICES

from kernel_processes.head import actor_records as actors
from kernel_spec.observers import ACTOR, STATES

ROOT = Path(__file__).resolve().parents[3]
PROTO = ROOT / "spec" / "proto"
COMMITTED = ROOT / "plugins" / "control_grpc" / "kernel_control_grpc" / f"kernel_{VERSION}.binpb"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pb2.FileDescriptorSet:
    """What the compiler makes of the .proto, with their comments."""
    target = tmp_path_factory.mktemp("proto") / "made.binpb"
    names = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    command = ["protoc", f"-I{PROTO}", "--include_source_info", f"--descriptor_set_out={target}", *names]
    assert protoc.main(command) == 0
    return descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())


def test_the_committed_descriptors_are_what_the_proto_files_say(compiled: descriptor_pb2.FileDescriptorSet) -> None:
    bare = descriptor_pb2.FileDescriptorSet()
    bare.CopyFrom(compiled)
    for file in bare.file:
        file.ClearField("source_code_info")
    committed = descriptor_pb2.FileDescriptorSet.FromString(COMMITTED.read_bytes())
    assert committed == bare, "they are out of date; run: python tools/make_protocol.py"


def test_everything_in_the_proto_files_has_a_comment(compiled: descriptor_pb2.FileDescriptorSet) -> None:
    bare, seen = [], 0
    for file in compiled.file:
        said = {tuple(one.path): one.leading_comments.strip() for one in file.source_code_info.location}
        for path, name in things_of(file):
            seen += 1
            if not said.get(path):
                bare.append(f"{file.name}: {name}")
    assert seen > 200 and not bare, "\n".join(bare)


def things_of(file: descriptor_pb2.FileDescriptorProto) -> list[tuple[tuple[int, ...], str]]:
    """Return where each message, field, enumeration, value, service and method of a file stands, and its name."""
    found: list[tuple[tuple[int, ...], str]] = []
    for outer, inner, group in ((4, 2, file.message_type), (5, 2, file.enum_type), (6, 2, file.service)):
        for number, one in enumerate(group):
            found.append(((outer, number), one.name))
            parts: Any = getattr(one, {4: "field", 5: "value", 6: "method"}[outer])
            found += [((outer, number, inner, below), f"{one.name}.{part.name}") for below, part in enumerate(parts)]
    return found


def test_every_method_is_answered_and_every_answer_is_a_method() -> None:
    answers = {
        (service.__name__, name)
        for service in SERVICES
        for name, value in vars(service).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert answers == {(method.service, method.word) for method in METHODS.values()}
    streams = {method.path for method in METHODS.values() if method.streams}
    assert streams == {"/kernel.v1.Nodes/Watch", "/kernel.v1.PubSub/Subscribe", "/kernel.v1.Events/Watch"}


def test_a_stream_sends_a_list_and_how_much_was_missed() -> None:
    for method in METHODS.values():
        if method.streams:
            names = [field.name for field in method.response.DESCRIPTOR.fields]
            assert names[1:] == ["missed"]
            assert list(getattr(method.response(), names[0])) == []


def test_states_are_those_of_the_head() -> None:
    states = {actors.PENDING, actors.STARTING, actors.ALIVE, actors.RESTARTING, actors.DEAD}
    assert set(messages.ActorState) == {f"ACTOR_STATE_{state}" for state in states | {"UNSPECIFIED"}}
    assert set(STATES[ACTOR]) <= states


def test_the_kinds_of_events_are_documented() -> None:
    text = (PROTO / "kernel" / VERSION / "events.proto").read_text(encoding="utf-8")
    named = set(re.findall(r'"(\w+)"', text))
    assert set(STATES) <= named


@pytest.mark.parametrize(
    ("name", "word"), [("List", "list"), ("FindByName", "find_by_name"), ("PlacementGroups", "placement_groups")]
)
def test_names_in_python(name: str, word: str) -> None:
    assert in_python(name) == word
