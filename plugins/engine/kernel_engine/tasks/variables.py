"""Expand `${NAME}` in the values of environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMED = re.compile(r"\$\{([^${}]+)\}")


def expand(variables: Mapping[str, str], surrounding: Mapping[str, str]) -> dict[str, str]:
    """Return `variables` with each `${NAME}` replaced by the value of that variable; "" if it is not set.

    Names are first those of `variables`, in any order, then of `surrounding`, where the process runs. Within its own
    value, and in a ring, a name is the surrounding one: `PATH` may be `${PATH}:/more`.
    """

    def value(name: str, inside: tuple[str, ...]) -> str:
        if name not in variables or name in inside:
            return surrounding.get(name, "")
        return _NAMED.sub(lambda match: value(match[1], (*inside, name)), variables[name])

    return {name: value(name, ()) for name in variables}
