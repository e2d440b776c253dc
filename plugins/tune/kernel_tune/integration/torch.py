"""PyTorch training loops: the states of modules and optimizers as one checkpoint, and back."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.errors import CheckpointError
from kernel_runs.optional import needed
from kernel_runs.session import get_checkpoint
from kernel_tune.integration.reporting import plain, report_with_checkpoint

STATE_FILE = "state.pt"


def report_state(metrics: dict[str, Any], **state: Any) -> None:
    """Report metrics with a checkpoint: `report_state({"loss": loss}, model=model, optimizer=optimizer, epoch=3)`.

    Of what has a `state_dict` (modules, optimizers, schedulers) that is saved; other values must be tensors, numbers,
    strings, or lists and dicts of these. StopIteration as `tune.report`.
    """
    torch = needed("torch", "report_state", "torch")
    saved = {name: value.state_dict() if hasattr(value, "state_dict") else value for name, value in state.items()}
    values = {name: plain(value) for name, value in metrics.items()}
    report_with_checkpoint(values, lambda path: torch.save(saved, path), STATE_FILE)


def load_state(checkpoint: Checkpoint | None = None, /, device: Any = "cpu", **state: Any) -> dict[str, Any]:
    """Bring back what `report_state` has saved: `epoch = load_state(model=model, optimizer=optimizer).get("epoch", 0)`.

    Loads into what has a `load_state_dict`; returns all other values by their names, and an empty dict where the trial
    starts anew. `checkpoint` is the running trial's if not given; tensors come to `device`. Raises CheckpointError if
    the checkpoint has nothing of such a name.
    """
    checkpoint = get_checkpoint() if checkpoint is None else checkpoint
    if checkpoint is None:
        return {}
    torch = needed("torch", "load_state", "torch")
    with checkpoint.as_directory() as directory:
        saved: dict[str, Any] = torch.load(os.path.join(directory, STATE_FILE), map_location=device, weights_only=True)
    for name, target in state.items():
        if name not in saved:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} has no {name!r}, only {', '.join(sorted(saved))}: load what was given to"
                " report_state"
            )
        target.load_state_dict(saved.pop(name))
    return saved
