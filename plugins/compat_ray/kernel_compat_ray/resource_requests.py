"""Ask for resources in advance, as `ray.autoscaler.sdk` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import kernel


def request_resources(num_cpus: int | None = None, bundles: Sequence[Mapping[str, float]] | None = None) -> None:
    """Have the cluster be large enough for `num_cpus` CPUs and for `bundles` at once, while this program runs.

    An autoscaler adds machines until they would fit if nothing ran. Another call takes the place of the one before, and
    one without arguments takes the wish back. Raises OptionError for what is no bundle, such as `{"CPU": 4}`.
    """
    kernel.request_resources([*([{"CPU": 1.0}] * (num_cpus or 0)), *(bundles or ())])
