"""A trainable that keeps its checkpoints in remote storage, for machines that come and go.

python -m kernel_tune.examples.durable_example [--smoke-test] [--upload-dir s3://bucket/folder]

A trial whose machine is lost goes on, on any other one, from the last checkpoint there. Here it loses its own copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from typing import Any

from kernel import tune


class Patient(tune.DurableTrainable):
    """Counts, and fails once. By then its machine's disk is empty."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.count == self.config["fails_at"] and not os.path.exists("failed"):
            with open("failed", "w", encoding="utf-8"):
                pass
            for name in os.listdir(self.logdir):
                if name.startswith("checkpoint_"):
                    shutil.rmtree(os.path.join(self.logdir, name))
            raise ConnectionError("the machine is taken away")
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]


def main(smoke_test: bool = False, upload_dir: str | None = None) -> Any:
    """Run with checkpoints at an fsspec address, by default a temporary directory. Return the analysis."""
    steps = 6 if smoke_test else 60
    return tune.run(
        Patient,
        name="durable",
        config={"fails_at": steps - 1},
        stop={"training_iteration": steps},
        checkpoint_freq=2,
        max_failures=1,
        upload_dir=upload_dir or f"file://{tempfile.mkdtemp()}",
        metric="count",
        mode="max",
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument(
        "--upload-dir", metavar="ADDRESS", help="where checkpoints are kept (s3://, gs://, file:// ...)"
    )
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    arguments = parser.parse_args()
    print("counted to:", main(arguments.smoke_test, arguments.upload_dir).best_result["count"])
