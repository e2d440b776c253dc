"""Send a policy as the files of its checkpoint: it is made again from these, without a pickle."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernel_rllib.errors import DataError


def described(policy: Any) -> dict[str, Any]:
    """Return the files of a policy's checkpoint, arrays of bytes by their paths."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(policy.export_checkpoint(str(Path(directory) / "policy")))
        files = {
            str(path.relative_to(root)): np.frombuffer(path.read_bytes(), np.uint8)
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
    return {"files": files}


def write_described(description: Mapping[str, Any], directory: Path) -> None:
    """Write the files of a policy's checkpoint into a directory.

    Raises:
        DataError: If a path leads out of it, or it has a pickle.
    """
    for name, content in description["files"].items():
        path = (directory / name).resolve()
        if not path.is_relative_to(directory.resolve()) or path.suffix == ".pickles":
            raise DataError(f"the description of a policy has a file {name!r}, which is not taken from a server")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.asarray(content, np.uint8).tobytes())
