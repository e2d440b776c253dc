"""A gRPC client that knows nothing beforehand: it learns services and messages from the server, by reflection.

    python -m kernel_serve.testing.reflection 127.0.0.1:9000 list
    python -m kernel_serve.testing.reflection 127.0.0.1:9000 describe shop.Orders
    python -m kernel_serve.testing.reflection 127.0.0.1:9000 call shop.Orders/Count '{"text": "a b"}'

As `grpcurl` does, for machines that have no `grpcurl`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class Reflected:
    """The services at the other end of a channel. Names are full ones, such as `shop.Orders`."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._database = ProtoReflectionDescriptorDatabase(channel)
        self._pool = descriptor_pool.DescriptorPool(self._database)

    def services(self) -> list[str]:
        """Return the names of all services."""
        return sorted(self._database.get_services())

    def describe(self, service: str) -> str:
        """Return a service's definition with those of its messages, much like a file of protobuf's."""
        found = self._pool.FindServiceByName(service)
        lines, messages = [f"service {service} {{"], {}
        for method in found.methods:
            ends = []
            for message, streams in (
                (method.input_type, method.client_streaming),
                (method.output_type, method.server_streaming),
            ):
                messages[message.full_name] = message
                ends.append(f"{'stream ' if streams else ''}{message.full_name}")
            lines.append(f"  rpc {method.name} ({ends[0]}) returns ({ends[1]});")
        lines.append("}")
        for name, message in messages.items():
            lines.append(f"message {name} {{")
            lines += [f"  {_kind(field)} {field.name} = {field.number};" for field in message.fields]
            lines.append("}")
        return "\n".join(lines)

    def call(
        self,
        method: str,
        messages: Iterable[Mapping[str, Any]],
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Call `package.Service/Method` with messages in JSON's form; yield the answers in the same form.

        Raises grpc.RpcError, and KeyError for an unknown service or method.
        """
        service, _, name = method.rpartition("/")
        found = self._pool.FindServiceByName(service).methods_by_name[name]
        asked, answered = (message_factory.GetMessageClass(each) for each in (found.input_type, found.output_type))
        requests = [json_format.ParseDict(dict(each), asked()) for each in messages]
        kind = f"{'stream' if found.client_streaming else 'unary'}_{'stream' if found.server_streaming else 'unary'}"
        multi = getattr(self._channel, kind)(f"/{method}", asked.SerializeToString, answered.FromString)
        given = iter(requests) if found.client_streaming else requests[0] if requests else asked()
        answer = multi(given, metadata=metadata, timeout=timeout)
        for each in answer if found.server_streaming else (answer,):
            yield json_format.MessageToDict(each, preserving_proto_field_name=True)


def _kind(field: Any) -> str:
    """Return the type of a message's field."""
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.enum_type is not None:
        return str(field.enum_type.full_name)
    names = {getattr(field, name): name[5:].lower() for name in dir(field) if name.startswith("TYPE_")}
    return names[field.type]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code, 1 where the server answered with an error."""
    parser = argparse.ArgumentParser(
        prog="python -m kernel_serve.testing.reflection", description="Ask a gRPC server what it has, and call it."
    )
    parser.add_argument("address", help="HOST:PORT of the server")
    parser.add_argument("verb", choices=["list", "describe", "call"])
    parser.add_argument("name", nargs="?", default="", help="of a service, or for calls package.Service/Method")
    parser.add_argument("messages", nargs="*", help="of a call, in JSON")
    parser.add_argument("-H", "--metadata", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--cacert", metavar="FILE", help="speak TLS, and trust these certificates")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS")
    given = parser.parse_args(arguments)
    with _channel(given.address, given.cacert) as channel:
        reflected = Reflected(channel)
        try:
            if given.verb == "list":
                print("\n".join(reflected.services()))
            elif given.verb == "describe":
                print(reflected.describe(given.name))
            else:
                metadata = [(key, value) for key, _, value in (each.partition("=") for each in given.metadata)]
                messages = [json.loads(each) for each in given.messages]
                for answer in reflected.call(given.name, messages, metadata, given.timeout):
                    print(json.dumps(answer))
        except KeyError:
            print(f"the server has no {given.name!r}", file=sys.stderr)
            return 1
        except grpc.RpcError as error:
            status: Any = error
            print(f"{status.code().name}: {status.details()}", file=sys.stderr)
            return 1
    return 0


def _channel(address: str, authorities: str | None) -> grpc.Channel:
    if authorities is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(authorities).read_bytes()))


if __name__ == "__main__":
    sys.exit(main())
