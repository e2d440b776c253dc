"""Names that users gave to models of their own."""

from __future__ import annotations

from kernel_rllib.given_names import GivenNames

_MODELS = GivenNames("model", "custom_model", "register_custom_model")

register_model = _MODELS.register
"""Gives a model a name, which `model={"custom_model": name}` takes."""

model_named = _MODELS.named
"""Returns the model that a user names: by a registered name, by a dotted path, or as it is."""
