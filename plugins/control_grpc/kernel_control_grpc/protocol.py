"""The messages and methods of `kernel.v1`, made of the descriptors that `tools/make_protocol.py` writes.

Made at run time rather than generated as code, so that whichever protobuf other packages of a user need will do.
Importing this needs protobuf.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kernel_spec.dataclass import dataclass

VERSION = "v1"
ERROR_KEY = "kernel-error-bin"
"""The trailing metadata in which a failed call has its `Error`."""
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service. `request` and `response` are classes of messages; with `streams` there are many
    responses."""

    service: str
    name: str
    request: Any
    response: Any
    streams: bool

    @property
    def path(self) -> str:
        """The path of the method on the wire."""
        return f"/kernel.{VERSION}.{self.service}/{self.name}"

    @property
    def word(self) -> str:
        """The name in Python: `find_by_name` for `FindByName`."""
        return in_python(self.name)


def in_python(name: str) -> str:
    """Return a name of the protocol as Python writes it: `placement_groups` for `PlacementGroups`."""
    return _WORD.sub("_", name).lower()


def _load() -> tuple[SimpleNamespace, dict[str, Method]]:
    data = resources.files(__package__).joinpath(f"kernel_{VERSION}.binpb").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    found: dict[str, Any] = {}
    for file in files:
        described = pool.FindFileByName(file.name)
        for name, message in described.message_types_by_name.items():
            found[name] = message_factory.GetMessageClass(message)
        for name, enum in described.enum_types_by_name.items():
            found[name] = {value.name: value.number for value in enum.values}
    methods = (method for file in files for service in file.service for method in _methods(service, found))
    return SimpleNamespace(**found), {method.path: method for method in methods}


def _methods(service: descriptor_pb2.ServiceDescriptorProto, messages: dict[str, Any]) -> Iterator[Method]:
    for method in service.method:
        request, response = (name.rpartition(".")[2] for name in (method.input_type, method.output_type))
        yield Method(service.name, method.name, messages[request], messages[response], method.server_streaming)


messages, METHODS = _load()
"""Every message class by its name, every enumeration as name to number; and every method by its path."""
