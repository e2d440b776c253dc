"""PyTorch training loops: saving the states of modules and optimizers as one checkpoint, and loading them."""

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

    Objects with a `state_dict` (modules, optimizers, schedulers) are saved by that. Other values must be tensors,
    numbers, strings, or lists and dicts of these. Raises StopIteration if the trial is to stop, as `tune.report` does.
    """
    torch = needed("torch", "report_state", "torch")
    saved = {name: value.state_dict() if hasattr(value, "state_dict") else value for name, value in state.items()}
    values = {name: plain(value) for name, value in metrics.items()}
    report_with_checkpoint(values, lambda path: torch.save(saved, path), STATE_FILE)


def load_state(checkpoint: Checkpoint | None = None, /, device: Any = "cpu", **state: Any) -> dict[str, Any]:
    """Load what `report_state` has saved: `epoch = load_state(model=model, optimizer=optimizer).get("epoch", 0)`.

    It is loaded into the given objects with a `load_state_dict`; all other values are returned by their names. Without
    a checkpoint, when the trial begins anew, an empty dict is returned. `checkpoint` is by default that of the running
    trial; tensors are loaded to `device`. Raises CheckpointError if the checkpoint lacks one of the names.
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
