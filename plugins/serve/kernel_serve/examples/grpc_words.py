"""A gRPC service with all four kinds of methods, on the same proxies as HTTP.

python -m kernel_serve.examples.grpc_words

    Count: 3 words, 13 letters
    Split: the, quick, fox
    Join: the quick fox
    Shout: THE, QUICK, FOX
    no text: INVALID_ARGUMENT, there is nothing to count

`grpcurl -plaintext 127.0.0.1:9000 list`, and any other client, finds the service by reflection, and
`python -m kernel_serve.examples.grpc_words --ask 127.0.0.1:9000` asks one that runs. Needs grpcio-tools
(`pip install grpcio-tools`).
"""

from __future__ import annotations

import argparse
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc

from kernel import serve
from kernel_serve.examples import words_rpc

SERVICE = "kernel_serve.examples.words_rpc:add_WordsServicer_to_server"
SENTENCE = "the quick fox"


@serve.deployment
class Words:
    """Its methods have the names that the service's have."""

    async def Count(self, request: Any, context: Any) -> Any:
        """Count words and letters. `context` is gRPC's."""
        words = request.text.split()
        if not words:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "there is nothing to count")
        return words_rpc.Counts(words=len(words), letters=len(request.text))

    def Split(self, request: Any) -> Iterator[Any]:
        """Stream the words of a text. A plain generator runs in a thread."""
        for word in request.text.split():
            yield words_rpc.Text(text=word)

    async def Join(self, requests: AsyncIterator[Any]) -> Any:
        """Join words as they come."""
        return words_rpc.Text(text=" ".join([request.text async for request in requests]))

    async def Shout(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Answer each word before the next one comes."""
        async for request in requests:
            yield words_rpc.Text(text=request.text.upper())


app = Words.bind()


def ask(address: str) -> list[str]:
    """Call every method of the service at `address`; return what came back."""
    words = [words_rpc.Text(text=word) for word in SENTENCE.split()]
    with grpc.insecure_channel(address) as channel:
        stub = words_rpc.WordsStub(channel)
        counts = stub.Count(words_rpc.Text(text=SENTENCE), timeout=60)
        said = [f"Count: {counts.words} words, {counts.letters} letters"]
        said.append("Split: " + ", ".join(each.text for each in stub.Split(words_rpc.Text(text=SENTENCE), timeout=60)))
        said.append("Join: " + stub.Join(iter(words), timeout=60).text)
        said.append("Shout: " + ", ".join(each.text for each in stub.Shout(iter(words), timeout=60)))
        try:
            stub.Count(words_rpc.Text(), timeout=60)
        except grpc.RpcError as error:
            status: Any = error
            said.append(f"no text: {status.code().name}, {status.details()}")
    return said


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--ask", metavar="ADDRESS", help="ask the service that runs there")
    parser.add_argument("--port", type=int, default=9000, help="where to serve it")
    arguments = parser.parse_args()
    if arguments.ask:
        print("\n".join(ask(arguments.ask)))
    else:
        serve.start(grpc_options={"port": arguments.port, "grpc_servicer_functions": [SERVICE]})
        serve.run(app, name="words", route_prefix="/words")
        print("\n".join(ask(f"127.0.0.1:{arguments.port}")))
        print("Ctrl-C ends it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
