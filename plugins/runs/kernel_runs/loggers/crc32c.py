"""CRC-32C (Castagnoli) checksums, by a C library if one is installed."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import numpy as np

_log = logging.getLogger("kernel.runs")

_POLYNOMIAL = 0x82F63B78
_BLOCK = 1024


@lru_cache(maxsize=1)
def _tables() -> Any:
    """Return what each byte adds to the remainder, by its distance from the end of a block: shape (_BLOCK, 256)."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1).astype(np.uint32)
    tables = np.empty((_BLOCK, 256), np.uint32)
    tables[0] = first
    for distance in range(1, _BLOCK):
        former = tables[distance - 1]
        tables[distance] = first[former & 0xFF] ^ (former >> 8)
    return tables


def crc32c_by_tables(data: bytes) -> int:
    """Return the checksum, computed by numpy alone.

    The remainder is linear over GF(2): the remainder of a message is the sum of the remainders of its bytes, each
    followed by zeros. So a block takes one look-up by distance and byte, and a sum. The register is added to the first
    four bytes.
    """
    tables, register = _tables(), 0xFFFFFFFF
    for begin in range(0, len(data), _BLOCK):
        block = np.frombuffer(data[begin : begin + _BLOCK], np.uint8).copy()
        folded = min(4, len(block))
        block[:folded] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)[:folded]
        parts = tables[np.arange(len(block) - 1, -1, -1), block]
        register = int(np.bitwise_xor.reduce(parts)) ^ (register >> (8 * folded))
    return register ^ 0xFFFFFFFF


def _choose() -> Any:
    """Return the fastest function that is available."""
    for name, find in (("google_crc32c", _of_google), ("crc32c", _of_crc32c)):
        try:
            found = find()
        except Exception as error:  # not there, or broken: the next one does it
            _log.debug("CRC-32C is not computed by %s: %s", name, error)
            continue
        if found is not None:
            return found
    return crc32c_by_tables


def _of_google() -> Any:
    """Return the function of google-crc32c, or None if it is the slow pure-Python one."""
    import google_crc32c

    return google_crc32c.value if google_crc32c.implementation == "c" else None


def _of_crc32c() -> Any:
    import crc32c as library

    return library.crc32c


@lru_cache(maxsize=1)
def checksum() -> Any:
    """Return a function from bytes to their CRC-32C. It is chosen at the first call."""
    return _choose()


def masked(value: int) -> int:
    """Return a CRC as TFRecord files store it: rotated, plus a constant."""
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF
