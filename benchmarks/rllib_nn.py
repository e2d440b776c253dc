"""What an update of a learner costs: numpy's tape beside torch, and beside torch as other libraries use it.

python -m benchmarks.rllib_nn [--only WORD] [--grid] [--rounds N] [--blas-threads N] [--clock]

Each scene is one whole update: networks forward, loss, gradient, clipping, optimizer. "numpy" and "our torch" compute
one loss by the two backends; "torch" is the same update as it is usually written: modules, torch.distributions,
clip_grad_norm_, torch.optim. They take turns in one process, and the ratios are medians over rounds of its CPU time, so
that neighbours on the machine change them little. Without torch, only numpy's times are shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from kernel_rllib.nn.backend import Backend
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.blas import set_blas_threads
from kernel_rllib.nn.clipping import clip_by_global_norm
from kernel_rllib.nn.initializers import torch_linear
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.parameters import ParameterTable

Update = Callable[[], Any]
Scene = tuple[Callable[[str], Update], Callable[[], Update]]
"""What makes our update for a backend, and what makes torch's."""


# -- what scenes share ---------------------------------------------------------------------------------------------


def layers(sizes: list[int]) -> ParameterTable:
    """Return the table of a network with layers of these sizes."""
    shapes: dict[str, tuple[int, ...]] = {}
    for k, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        shapes[f"{k}/weight"], shapes[f"{k}/bias"] = (inputs, outputs), (outputs,)
    return ParameterTable(shapes)


def forward(nn: Ops, params: Any, prefix: str, x: Any, count: int, activation: str, last: str | None = None) -> Any:
    """Run `count` layers on `x`."""
    for k in range(count):
        name = f"{prefix}/{k}"
        x = nn.linear(x, params[f"{name}/weight"], params[f"{name}/bias"], activation if k < count - 1 else last)
    return x


def first_vector(table: ParameterTable) -> np.ndarray:
    """Return parameters to start with."""
    generator = np.random.default_rng(0)
    return table.vector({name: torch_linear()(entry.shape, generator) for name, entry in table.items()})


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers for a batch."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def choices(rows: int, count: int) -> np.ndarray:
    """Return actions for a batch."""
    return np.random.default_rng(1).integers(0, count, rows)


def constants(name: str, batch: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return a batch as a backend wants it."""
    if name == "numpy":
        return dict(batch)
    import torch

    return {key: torch.tensor(value) for key, value in batch.items()}


def our_update(name: str, table: ParameterTable, losses: list[tuple[Any, str]], limit: float | None = None) -> Update:
    """Return an update by losses, each with the prefix of what it trains."""
    one: Backend = backend(name)
    vector = first_vector(table)
    optimizers = []
    for _, prefix in losses:
        (place,) = table.mask([prefix or "*"])
        optimizers.append((place, one.optimizer("adam", place.stop - place.start, epsilon=1e-5)))

    def update() -> None:
        for (loss, prefix), (place, optimizer) in zip(losses, optimizers, strict=True):
            _, gradient = one.gradient(loss, vector, table, (prefix,) if prefix else None)
            if limit is not None:
                clip_by_global_norm(gradient[place], limit)
            optimizer.step(vector[place], gradient[place], 3e-4)

    return update


def torch_net(sizes: list[int], activation: str) -> Any:
    """Return the same network of torch's modules."""
    from torch import nn

    parts: list[Any] = []
    for inputs, outputs in itertools.pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]()]
    return nn.Sequential(*parts[:-1])


# -- scenes --------------------------------------------------------------------------------------------------------


def ppo(rows: int, width: int) -> Scene:
    """PPO: two networks, clipped surrogate, entropy, value loss."""
    batch = {
        "obs": normal(rows, 4), "actions": choices(rows, 2), "logp": -np.abs(normal(rows)), "advantages": normal(rows),
        "targets": normal(rows, seed=2),
    }  # fmt: skip
    sizes = [4, width, width]

    def ours(name: str) -> Update:
        columns = constants(name, batch)

        def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            logps = nn.log_softmax(forward(nn, params, "policy", columns["obs"], 3, "tanh"))
            values = forward(nn, params, "value", columns["obs"], 3, "tanh")[:, 0]
            logp = nn.take_along(logps, columns["actions"][:, None])[:, 0]
            ratio = nn.exp(logp - columns["logp"])
            gain = nn.minimum(ratio * columns["advantages"], nn.clip(ratio, 0.8, 1.2) * columns["advantages"])
            entropy = -nn.mean(nn.sum(nn.exp(logps) * logps, -1))
            policy_loss, value_loss = -nn.mean(gain), nn.mean(nn.square(values - columns["targets"]))
            moved = nn.stop_gradient(logp) - columns["logp"]
            metrics = {
                "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy,
                "kl": nn.mean(nn.exp(moved) - 1 - moved),
                "clipped": nn.mean(nn.abs(nn.stop_gradient(ratio) - 1) > 0.2),
            }  # fmt: skip
            return policy_loss + 0.5 * value_loss - 0.01 * entropy, metrics

        tables = {"policy": layers([*sizes, 2]), "value": layers([*sizes, 1])}
        return our_update(name, ParameterTable.joined(tables), [(loss, "")], limit=0.5)

    def theirs() -> Update:
        import torch

        policy, value = torch_net([*sizes, 2], "tanh"), torch_net([*sizes, 1], "tanh")
        parameters = [*policy.parameters(), *value.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
        columns = constants("torch", batch)

        def update() -> None:
            distribution = torch.distributions.Categorical(logits=policy(columns["obs"]))
            logp, entropy = distribution.log_prob(columns["actions"]), distribution.entropy().mean()
            values = value(columns["obs"]).flatten()
            ratio = torch.exp(logp - columns["logp"])
            gain = torch.min(ratio * columns["advantages"], torch.clamp(ratio, 0.8, 1.2) * columns["advantages"])
            policy_loss, value_loss = -gain.mean(), torch.nn.functional.mse_loss(columns["targets"], values)
            loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
            with torch.no_grad():
                moved = logp - columns["logp"]
                for metric in (torch.mean((torch.exp(moved) - 1) - moved),
                               torch.mean((torch.abs(ratio - 1) > 0.2).float())):  # fmt: skip
                    metric.item()
            for metric in (policy_loss, value_loss, entropy):
                metric.item()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()

        return update

    return ours, theirs


def dqn(rows: int, width: int) -> Scene:
    """DQN: double Q-learning, dueling heads, Huber loss."""
    batch = {
        "obs": normal(rows, 4), "new_obs": normal(rows, 4, seed=1), "actions": choices(rows, 2),
        "rewards": normal(rows, seed=2), "going_on": (normal(rows, seed=3) > -2).astype(np.float32),
    }  # fmt: skip
    sizes = [4, width, width]

    def ours(name: str) -> Update:
        columns = constants(name, batch)

        def q(nn: Ops, params: Any, prefix: str, obs: Any) -> Any:
            x = forward(nn, params, f"{prefix}/base", obs, 2, "relu", "relu")
            value = forward(nn, params, f"{prefix}/value", x, 1, "relu")
            advantage = forward(nn, params, f"{prefix}/advantage", x, 1, "relu")
            return value + advantage - nn.mean(advantage, -1, keepdims=True)

        def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            best = nn.argmax(nn.stop_gradient(q(nn, params, "online", columns["new_obs"])))
            following = nn.take_along(q(nn, params, "target", columns["new_obs"]), best[:, None])[:, 0]
            target = nn.stop_gradient(columns["rewards"] + 0.99 * columns["going_on"] * following)
            taken = nn.take_along(q(nn, params, "online", columns["obs"]), columns["actions"][:, None])[:, 0]
            error = taken - target
            return nn.mean(nn.huber(error)), {"td_error": nn.abs(nn.stop_gradient(error))}

        net = {"base": layers(sizes), "value": layers([width, 1]), "advantage": layers([width, 2])}
        table = ParameterTable.joined({kind: ParameterTable.joined(net) for kind in ("online", "target")})
        return our_update(name, table, [(loss, "online")], limit=10.0)

    def theirs() -> Update:
        import torch
        from torch import nn

        class Net(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.base = nn.Sequential(*torch_net(sizes, "relu"), nn.ReLU())
                self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, 2)

            def forward(self, obs: Any) -> Any:
                x = self.base(obs)
                advantage = self.advantage(x)
                return self.value(x) + advantage - advantage.mean(-1, keepdim=True)

        online, frozen = Net(), Net()
        optimizer = torch.optim.Adam(online.parameters(), lr=3e-4, eps=1e-5)
        columns = constants("torch", batch)

        def update() -> None:
            with torch.no_grad():
                best = online(columns["new_obs"]).argmax(-1, keepdim=True)
                following = frozen(columns["new_obs"]).gather(1, best)[:, 0]
                target = columns["rewards"] + 0.99 * columns["going_on"] * following
            taken = online(columns["obs"]).gather(1, columns["actions"][:, None])[:, 0]
            loss = nn.functional.smooth_l1_loss(taken, target)
            (taken - target).detach().abs().numpy()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), 10.0)
            optimizer.step()

        return update

    return ours, theirs


def c51(rows: int, width: int) -> Scene:
    """Categorical DQN: cross entropy with a projected distribution of 51 atoms for each of six actions."""
    batch = {"obs": normal(rows, 8), "actions": choices(rows, 6), "projected": np.abs(normal(rows, 51))}
    batch["projected"] /= batch["projected"].sum(1, keepdims=True)
    sizes = [8, width, width, 6 * 51]

    def ours(name: str) -> Update:
        columns = constants(name, batch)

        def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            logits = nn.reshape(forward(nn, params, "net", columns["obs"], 3, "relu"), (rows, 6, 51))
            logps = nn.log_softmax(logits[nn.constant(np.arange(rows)), columns["actions"]])
            return -nn.mean(nn.sum(columns["projected"] * logps, -1)), {}

        return our_update(name, ParameterTable.joined({"net": layers(sizes)}), [(loss, "")])

    def theirs() -> Update:
        import torch

        net = torch_net(sizes, "relu")
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)
        columns = constants("torch", batch)

        def update() -> None:
            logits = net(columns["obs"]).view(rows, 6, 51)[torch.arange(rows), columns["actions"]]
            loss = -(columns["projected"] * torch.log_softmax(logits, -1)).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return update

    return ours, theirs


def qr_dqn(rows: int, width: int) -> Scene:
    """Quantile regression DQN: Huber loss of all pairs of 50 quantiles."""
    batch = {"obs": normal(rows, 8), "actions": choices(rows, 2), "targets": normal(rows, 50)}
    sizes = [8, width, width, 2 * 50]
    middles = (np.arange(50, dtype=np.float32) + 0.5) / 50

    def ours(name: str) -> Update:
        columns = constants(name, batch)

        def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            quantiles = nn.reshape(forward(nn, params, "net", columns["obs"], 3, "relu"), (rows, 2, 50))
            taken = quantiles[nn.constant(np.arange(rows)), columns["actions"]]
            apart = columns["targets"][:, None, :] - taken[:, :, None]
            share = nn.constant(middles[:, None])
            weight = nn.where(nn.stop_gradient(apart) < 0, 1 - share, share)
            return nn.mean(nn.sum(weight * nn.huber(apart), 1)), {}

        return our_update(name, ParameterTable.joined({"net": layers(sizes)}), [(loss, "")])

    def theirs() -> Update:
        import torch

        net = torch_net(sizes, "relu")
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)
        columns = constants("torch", batch)
        tau = torch.tensor(middles)[:, None]

        def update() -> None:
            taken = net(columns["obs"]).view(rows, 2, 50)[torch.arange(rows), columns["actions"]]
            apart = columns["targets"][:, None, :] - taken[:, :, None]
            size = apart.abs()
            huber = torch.where(size > 1, size - 0.5, apart**2 * 0.5)
            loss = (torch.abs(tau - (apart.detach() < 0).float()) * huber).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return update

    return ours, theirs


def sac(rows: int, width: int) -> Scene:
    """SAC: two Q-functions and their targets, a squashed Gaussian policy; a critic's and an actor's step."""
    dimensions, actions = 17, 6
    batch = {
        "obs": normal(rows, dimensions), "new_obs": normal(rows, dimensions, seed=1),
        "actions": np.tanh(normal(rows, actions)), "rewards": normal(rows, seed=2),
        "going_on": (normal(rows, seed=3) > -2).astype(np.float32), "noise": normal(rows, actions, seed=4),
        "new_noise": normal(rows, actions, seed=5),
    }  # fmt: skip
    q_sizes, policy_sizes = [dimensions + actions, width, width, 1], [dimensions, width, width, 2 * actions]

    def ours(name: str) -> Update:
        columns = constants(name, batch)

        def act(nn: Ops, params: Any, obs: Any, noise: Any) -> tuple[Any, Any]:
            mean, log_deviation = nn.split(forward(nn, params, "policy", obs, 3, "relu"), 2)
            log_deviation = nn.clip(log_deviation, -20, 2)
            raw = mean + nn.exp(log_deviation) * noise
            logp = -0.5 * nn.square(noise) - log_deviation - 0.5 * math.log(2 * math.pi)
            logp = logp - 2 * (math.log(2) - raw - nn.softplus(-2 * raw))
            return nn.tanh(raw), nn.sum(logp, -1)

        def q(nn: Ops, params: Any, prefix: str, obs: Any, action: Any) -> list[Any]:
            x = nn.concat([obs, action])
            return [forward(nn, params, f"{prefix}/{k}", x, 3, "relu")[:, 0] for k in range(2)]

        def critic_loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            action, logp = act(nn, params, columns["new_obs"], columns["new_noise"])
            following = nn.minimum(*q(nn, params, "target", columns["new_obs"], action)) - 0.2 * logp
            goal = nn.stop_gradient(columns["rewards"] + 0.99 * columns["going_on"] * following)
            first, second = q(nn, params, "q", columns["obs"], columns["actions"])
            loss = 0.5 * (nn.mean(nn.square(first - goal)) + nn.mean(nn.square(second - goal)))
            return loss, {"critic_loss": loss}

        def actor_loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            action, logp = act(nn, params, columns["obs"], columns["noise"])
            loss = nn.mean(0.2 * logp - nn.minimum(*q(nn, params, "q", columns["obs"], action)))
            return loss, {"actor_loss": loss}

        critics = ParameterTable.joined({str(k): layers(q_sizes) for k in range(2)})
        table = ParameterTable.joined({"policy": layers(policy_sizes), "q": critics, "target": critics})
        return our_update(name, table, [(critic_loss, "q"), (actor_loss, "policy")])

    def theirs() -> Update:
        import torch

        policy = torch_net(policy_sizes, "relu")
        critics, targets = ([torch_net(q_sizes, "relu") for _ in range(2)] for _ in range(2))
        q_parameters = [*critics[0].parameters(), *critics[1].parameters()]
        optimizer, q_optimizer = (
            torch.optim.Adam(parameters, lr=3e-4, eps=1e-5) for parameters in (policy.parameters(), q_parameters)
        )
        columns = constants("torch", batch)

        def act(obs: Any) -> tuple[Any, Any]:
            mean, log_deviation = policy(obs).chunk(2, -1)
            distribution = torch.distributions.Normal(mean, torch.clamp(log_deviation, -20, 2).exp())
            raw = distribution.rsample()
            action = torch.tanh(raw)
            logp = distribution.log_prob(raw).sum(-1) - torch.log(1 - action**2 + 1e-6).sum(-1)
            return action, logp

        def q(nets: list[Any], obs: Any, action: Any) -> list[Any]:
            x = torch.cat([obs, action], dim=1)
            return [net(x)[:, 0] for net in nets]

        def update() -> None:
            with torch.no_grad():
                action, logp = act(columns["new_obs"])
                following = torch.min(*q(targets, columns["new_obs"], action)) - 0.2 * logp
                goal = columns["rewards"] + 0.99 * columns["going_on"] * following
            loss = 0.5 * sum(
                torch.nn.functional.mse_loss(value, goal) for value in q(critics, columns["obs"], columns["actions"])
            )
            q_optimizer.zero_grad()
            loss.backward()
            q_optimizer.step()
            loss.item()
            action, logp = act(columns["obs"])
            loss = (0.2 * logp - torch.min(*q(critics, columns["obs"], action))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()

        return update

    return ours, theirs


def lstm(steps: int, lanes: int, width: int) -> Scene:
    """PPO's policy loss through an LSTM over sequences."""
    batch = {
        "obs": normal(steps, lanes, 8), "actions": choices(steps * lanes, 4), "advantages": normal(steps * lanes),
        "zeros": np.zeros((lanes, width), np.float32),
    }  # fmt: skip

    def ours(name: str) -> Update:
        columns = constants(name, batch)

        def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
            x = nn.linear(columns["obs"], params["input/0/weight"], params["input/0/bias"], "tanh")
            x = nn.linear(x, params["lstm/0/weight"], params["lstm/0/bias"])
            hiddens, _, _ = nn.lstm(x, columns["zeros"], columns["zeros"], params["lstm/hidden"])
            logits = forward(nn, params, "output", nn.reshape(hiddens, (-1, width)), 1, "tanh")
            logps = nn.take_along(nn.log_softmax(logits), columns["actions"][:, None])[:, 0]
            return -nn.mean(logps * columns["advantages"]), {}

        cell = ParameterTable({**layers([width, 4 * width]).shapes(), "hidden": (width, 4 * width)})
        tables = {"input": layers([8, width]), "lstm": cell, "output": layers([width, 4])}
        return our_update(name, ParameterTable.joined(tables), [(loss, "")], limit=0.5)

    def theirs() -> Update:
        import torch
        from torch import nn

        first, cell, last = nn.Linear(8, width), nn.LSTM(width, width), nn.Linear(width, 4)
        parameters = [*first.parameters(), *cell.parameters(), *last.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
        columns = constants("torch", batch)

        def update() -> None:
            state = (columns["zeros"][None], columns["zeros"][None])
            hiddens, _ = cell(torch.tanh(first(columns["obs"])), state)
            distribution = torch.distributions.Categorical(logits=last(hiddens).flatten(0, 1))
            loss = -(distribution.log_prob(columns["actions"]) * columns["advantages"]).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()

        return update

    return ours, theirs


SCENES: dict[str, Callable[[], Scene]] = {
    "PPO, 64x64, 64 rows": lambda: ppo(64, 64),
    "PPO, 64x64, 256 rows": lambda: ppo(256, 64),
    "PPO, 64x64, 1,024 rows": lambda: ppo(1024, 64),
    "PPO, 256x256, 256 rows": lambda: ppo(256, 256),
    "DQN double dueling, 256x256, 64 rows": lambda: dqn(64, 256),
    "C51, 128x128, 64 rows": lambda: c51(64, 128),
    "QR-DQN, 128x128, 64 rows": lambda: qr_dqn(64, 128),
    "SAC, 256x256, 256 rows": lambda: sac(256, 256),
    "LSTM of 64, 20 steps, 16 lanes": lambda: lstm(20, 16, 64),
    "LSTM of 256, 20 steps, 64 lanes": lambda: lstm(20, 64, 256),
}


GRID: dict[str, Callable[[], Scene]] = {
    f"PPO, {width}x{width}, {rows:,} rows": partial(ppo, rows, width)
    for width in (64, 128, 256, 512, 1024)
    for rows in (64, 256, 1024, 4096)
}
"""Where numpy and torch cross."""


def microseconds(update: Update, seconds: float, clock: Callable[[], float]) -> float:
    """Return the time of an update by a clock, over as many as fit into some seconds of it."""
    count, began = 0, clock()
    while (used := clock() - began) < seconds or count < 3:
        for _ in range(3):
            update()
        count += 3
    return used / count * 1e6


def ratio_of(times: list[list[float]], column: int) -> str:
    """Return how many times as long as numpy a column takes: the median of rounds, the least and the greatest."""
    ratios = sorted(row[column] / row[0] for row in times)
    return f"{statistics.median(ratios):9.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="only scenes with this word in their names")
    parser.add_argument("--grid", action="store_true", help="PPO with many widths of networks and numbers of rows")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each update and round")
    parser.add_argument("--clock", action="store_true", help="count the time of the clock, not of CPUs")
    parser.add_argument("--blas-threads", type=int, default=1, help="also torch's")
    given = parser.parse_args()
    set_blas_threads(given.blas_threads)
    names = ["numpy"]
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(given.blas_threads)
        names += ["our torch", "torch"]
    title, clock = "microseconds of CPU an update", time.process_time
    if given.clock:
        title, clock = "microseconds an update", time.perf_counter
    print(f"{title:38}" + "".join(f"{name:>11}" for name in names) + "   torch / numpy, our torch / numpy")
    for title, make in (GRID if given.grid else SCENES).items():
        if given.only not in title:
            continue
        ours, theirs = make()
        updates = [theirs() if name == "torch" else ours(name.removeprefix("our ")) for name in names]
        for update in updates:
            for _ in range(20):
                update()
        times = [[microseconds(update, given.seconds, clock) for update in updates] for _ in range(given.rounds)]
        middles = [statistics.median(column) for column in zip(*times, strict=True)]
        shown = "".join(ratio_of(times, column) for column in (-1, 1)) if len(names) > 1 else ""
        print(f"{title:38}" + "".join(f"{middle:11,.0f}" for middle in middles) + shown, flush=True)


if __name__ == "__main__":
    main()
