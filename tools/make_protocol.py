"""Write the descriptors of the control plane from spec/proto: `python tools/make_protocol.py`. Needs grpcio-tools.

What is written belongs to the repository, so that nobody else needs a compiler; a test compares it with the .proto.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "spec" / "proto"
TARGET = ROOT / "plugins" / "control_grpc" / "kernel_control_grpc" / "kernel_v1.binpb"


def compile_to(target: Path) -> int:
    """Write the descriptors of every .proto into `target`; return the exit code of the compiler, which says why."""
    from grpc_tools import protoc

    names = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    code: int = protoc.main(["protoc", f"-I{SOURCES}", f"--descriptor_set_out={target}", *names])
    return code


if __name__ == "__main__":
    sys.exit(compile_to(TARGET))
