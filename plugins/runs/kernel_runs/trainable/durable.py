"""Trainables that copy their checkpoints to remote storage themselves."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.trainable.trainable import Trainable


class DurableTrainable(Trainable):
    """Copies each checkpoint to `remote_checkpoint_dir` (any fsspec address), and restores from there if needed.

    It is for experiments on machines that come and go. Results need not be copied to the driver then.
    """

    remote_checkpoint_dir = ""

    def __init__(self, remote_checkpoint_dir: Any = None, *args: Any, **kwargs: Any) -> None:
        if isinstance(remote_checkpoint_dir, dict):  # an experiment passes the configuration as first argument
            args, remote_checkpoint_dir = (remote_checkpoint_dir, *args), None
        if remote_checkpoint_dir:
            self.remote_checkpoint_dir = str(remote_checkpoint_dir)
        super().__init__(*args, **kwargs)

    @property
    def storage_client(self) -> Any:
        """The fsspec file system of the remote directory; None if there is no such directory."""
        if not self._root:
            return None
        import fsspec  # here: only durable trainables need it

        return fsspec.core.url_to_fs(self._root)[0]

    @property
    def _root(self) -> str:
        return self.remote_checkpoint_dir or self._run_place.upload_dir

    def checkpoint_is_there(self, path: str) -> None:
        """Copy a checkpoint that was written to the remote directory."""
        target = self._remote(path)
        if target:
            client = self.storage_client
            client.makedirs(os.path.dirname(target), exist_ok=True)
            client.put(path.rstrip("/") + "/", target + "/", recursive=True)

    def restore(self, checkpoint_path: Any) -> None:
        """Continue from a checkpoint. If it is missing here, it is fetched."""
        path = os.fspath(getattr(checkpoint_path, "path", checkpoint_path))
        target = self._remote(path)
        if target and not os.path.exists(path):
            Checkpoint(target, self.storage_client).to_directory(path)
        super().restore(path)

    def delete_checkpoint(self, checkpoint_path: str) -> None:
        """Delete a checkpoint here and in the remote directory."""
        super().delete_checkpoint(checkpoint_path)
        target = self._remote(checkpoint_path)
        if target and self.storage_client.exists(target):
            self.storage_client.rm(target, recursive=True)

    def _remote(self, path: str) -> str:
        if not self._root:
            return ""
        import fsspec  # see above

        root = fsspec.core.url_to_fs(self._root)[1].rstrip("/")
        return f"{root}/{self.trial_name or 'trial'}/{os.path.basename(path.rstrip('/'))}"
