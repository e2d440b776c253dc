"""The host and port that a request names, as the headers Host and :authority have them."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(rb"[A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]*")
"""The characters of RFC 3986, 3.2.2 and 3.2.3: what a host and a port may be made of, and nothing that may follow."""


def is_authority(value: bytes) -> bool:
    """Return whether this can be a host, or host and port. An empty one can: it says that there is none to name."""
    return _AUTHORITY.fullmatch(value) is not None
