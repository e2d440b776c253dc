"""The host and port that a request names, as the headers Host and :authority have them."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(rb"[A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]*")
"""The characters of a host and a port, RFC 3986, 3.2.2 and 3.2.3, without those that end them."""


def is_authority(value: bytes) -> bool:
    """Return whether `value` can be a host, or a host and a port. An empty one can: the request names no host."""
    return _AUTHORITY.fullmatch(value) is not None
