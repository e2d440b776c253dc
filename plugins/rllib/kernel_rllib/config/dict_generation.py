"""Of which generation a dict of settings is: its keys tell, as far as they have changed."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernel_rllib.config.generations import GENERATIONS, Generation

if TYPE_CHECKING:
    from kernel_rllib.config.settings_dict import DictSettings


def generation_of_keys(settings: type[DictSettings], keys: Iterable[str]) -> Generation:
    """Return the oldest generation whose dicts have all these keys; today's, if its dicts have them, too.

    So `{"num_workers": 2}` is of 0.8.5, `{"num_rollout_workers": 2}` of 2.0 to 2.9, and `{"lr": 1e-3}`, which all would
    say so, of today. Keys that no generation has as defaults tell nothing; keys of several generations in one dict
    make it one of today.

    Args:
        settings: The class of settings that the dict is for.
        keys: The keys of the dict.
    """
    known = {generation: _default_keys(settings, generation) for generation in GENERATIONS}
    telling = {key for key in keys if any(key in found for found in known.values())}
    fitting = [generation for generation in GENERATIONS if telling <= known[generation]]
    return "current" if not fitting or "current" in fitting else fitting[0]


def generation_of_whole(settings: type[DictSettings], keys: Iterable[str]) -> Generation:
    """Return the generation of which a dict has every key, as a changed copy of its defaults has; or today's."""
    there = set(keys)
    whole = [generation for generation in GENERATIONS if _default_keys(settings, generation) <= there]
    return "current" if not whole or "current" in whole else whole[0]


@functools.cache
def _default_keys(settings: type[DictSettings], generation: Generation) -> frozenset[str]:
    return frozenset(settings.default_dict(generation))
