"""A policy that has learned, behind HTTP: trained here, kept in a directory, and served by `kernel.serve`.

    python -m kernel_rllib.examples.serve_policy

    $ curl http://127.0.0.1:8000/cartpole -H 'content-type: application/json' -d '{"observation": [0.0, 0.1, 0.0, 0.2]}'
    {"action":1}

Each replica reads the policy from the directory: the algorithm and its environment are not needed any more. Requests
that come at the same time are decided on together. Where the policy is to go on learning from those who ask, see
`cartpole_server` instead. Needs `pip install kernel-rllib[serve]`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from kernel import serve
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.errors import SpaceError
from kernel_rllib.first_generation.policy import Policy


@serve.deployment
class ServedPolicy:
    """Answers `{"observation": ...}` with `{"action": ...}`, the best that its policy knows."""

    def __init__(self, directory: str) -> None:
        """Read the policy that `export_policy_checkpoint` has written."""
        self.policy = Policy.from_checkpoint(directory)

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.002)  # type: ignore[untyped-decorator]
    async def decide(self, observations: list[Any]) -> list[int]:
        """Return an action for each observation."""
        actions, *_ = self.policy.compute_actions(self.policy.preprocess(observations), explore=False)
        return [int(action) for action in actions]

    async def __call__(self, request: Request) -> Any:
        """Answer a request; with status 400 where the observation is none of the policy's space."""
        asked = await request.json()
        try:
            self.policy.preprocess([asked["observation"]])
            return {"action": await self.decide(asked["observation"])}
        except (KeyError, TypeError, SpaceError) as error:
            return JSONResponse({"error": f"{type(error).__name__}: {error}"}, status_code=400)


def train(directory: str | Path, iterations: int, seed: int | None = None) -> None:
    """Learn CartPole for so many iterations, and keep the policy in a directory."""
    algorithm = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs=8)
        .training(train_batch_size=1024, minibatch_size=128, num_epochs=8, lr=1e-3, lambda_=0.95, use_kl_loss=False)
        .debugging(seed=seed)
        .build()
    )
    try:
        for _ in range(iterations):
            algorithm.train()
        algorithm.export_policy_checkpoint(str(directory))
    finally:
        algorithm.stop()


def main(argv: Sequence[str] | None = None) -> None:
    """Train if no policy is given, and serve until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default=None, help="the directory of a policy (default: train one)")
    parser.add_argument("--iterations", type=int, default=20, help="how many iterations to train for")
    parser.add_argument("--replicas", type=int, default=1, help="how many replicas serve it")
    given = parser.parse_args(argv)
    directory = given.policy or tempfile.mkdtemp(prefix="policy-")
    if given.policy is None:
        train(directory, given.iterations)
    deployment = ServedPolicy.options(num_replicas=given.replicas)  # type: ignore[attr-defined]
    serve.run(deployment.bind(directory), name="cartpole", route_prefix="/cartpole", blocking=True)


if __name__ == "__main__":
    main()
