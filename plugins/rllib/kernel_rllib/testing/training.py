"""Training for a while, for tests that compare the bits of two runs."""

from __future__ import annotations

from kernel_rllib.training.algorithm import Algorithm


def weights_after(iterations: int, algorithm: Algorithm) -> bytes:
    """Train for some iterations, and return all parameters of the only policy."""
    for _ in range(iterations):
        algorithm.train()
    return algorithm.learner.weights.tobytes()
