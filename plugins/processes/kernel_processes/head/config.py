"""The settings with which a head starts."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_spec.dataclass import dataclass


@dataclass(slots=True)
class HeadConfig:
    """Settings of one head. An `ephemeral` session ends with the program that started it.

    `address` is where programs find it: a session's directory, or `kernel://HOST:PORT`. `node` is the node beside it,
    which is gone when the head is started anew with the metadata of `metadata_directory` (default: `directory`).
    """

    directory: str
    address: str
    ephemeral: bool
    head_services: Sequence[str] = ()
    node: bytes = b""
    metadata_directory: str = ""
