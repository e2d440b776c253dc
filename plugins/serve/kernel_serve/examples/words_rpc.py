"""The code that gRPC's compiler generates from `words.proto`.

Usually `python -m grpc_tools.protoc` writes it once, as two files; here it is made when it is imported.
"""

from __future__ import annotations

from typing import Any

import grpc

_generated: tuple[Any, Any] = grpc.protos_and_services("kernel_serve/examples/words.proto")

Text: Any = _generated[0].Text
Counts: Any = _generated[0].Counts
WordsStub: Any = _generated[1].WordsStub
add_WordsServicer_to_server: Any = _generated[1].add_WordsServicer_to_server
