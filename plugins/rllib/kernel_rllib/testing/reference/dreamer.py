"""DreamerV3 in plain float64: Hafner et al. 2023, arXiv 2301.04104, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernel_rllib.arrays import Array


def symlog(x: float) -> float:
    """Return sign(x) log(1 + |x|): equation 9."""
    return math.copysign(math.log(1 + abs(x)), x) if x else 0.0


def symexp(x: float) -> float:
    """Return sign(x) (exp(|x|) - 1): equation 9."""
    return math.copysign(math.exp(abs(x)) - 1, x) if x else 0.0


def two_hot(x: float, bins: Sequence[float]) -> list[float]:
    """Return the weights of bins of symlog(x): equation 10."""
    value = min(max(symlog(x), bins[0]), bins[-1])
    k = max(sum(1 for each in bins if each <= value) - 1, 0)
    found = [0.0] * len(bins)
    if k == len(bins) - 1:
        found[k] = 1.0
    else:
        found[k + 1] = (value - bins[k]) / (bins[k + 1] - bins[k])
        found[k] = 1 - found[k + 1]
    return found


def probabilities(logits: Sequence[float], unimix: float = 0.0) -> list[float]:
    """Return the softmax of logits, of which a share is even."""
    most = max(logits)
    terms = [math.exp(each - most) for each in logits]
    return [(1 - unimix) * each / sum(terms) + unimix / len(terms) for each in terms]


def cross_entropy(weights: Sequence[float], logits: Sequence[float]) -> float:
    """Return -sum(w log p), p the softmax of logits: equation 11."""
    shares = probabilities(logits)
    return -sum(weight * math.log(share) for weight, share in zip(weights, shares, strict=True) if weight)


def divergence(first: Array, second: Array) -> float:
    """Return the KL divergence of categorical distributions [C, K], summed over C."""
    return sum(
        float(p) * (math.log(p) - math.log(q))
        for ps, qs in zip(first, second, strict=True)
        for p, q in zip(ps, qs, strict=True)
    )


def world_loss(
    decoded: Array,
    observed: Array,
    reward_logits: Array,
    rewards: Array,
    continue_logits: Array,
    terminals: Array,
    posteriors: Array,
    priors: Array,
    bins: Sequence[float],
) -> float:
    """Return L(pred) + 0.5 L(dyn) + 0.1 L(rep), the mean over all steps [N]: equations 4 and 5.

    Its value is that of both KL terms; their gradients differ in what is held still, and are not those of this number.
    """
    total, count = 0.0, len(decoded)
    for n in range(count):
        error = sum((float(a) - symlog(float(b))) ** 2 for a, b in zip(decoded[n], observed[n], strict=True))
        reward = cross_entropy(two_hot(float(rewards[n]), bins), reward_logits[n].tolist())
        going_on = 1 / (1 + math.exp(-float(continue_logits[n])))
        end = -math.log(1 - going_on) if terminals[n] else -math.log(going_on)
        kl = max(1.0, divergence(posteriors[n], priors[n]))
        total += error + reward + end + 0.5 * kl + 0.1 * kl
    return total / count


def lambda_returns(
    rewards: Sequence[float], going_on: Sequence[float], values: Sequence[float], gamma: float, lambda_: float
) -> list[float]:
    """Return R(t) of one dream: equation 6. `rewards` are of the states 1 to H, the others of 0 to H."""
    found = [values[-1]]
    for t in range(len(rewards) - 1, -1, -1):
        mixed = (1 - lambda_) * values[t + 1] + lambda_ * found[0]
        found.insert(0, rewards[t] + gamma * going_on[t + 1] * mixed)
    return found[:-1]


def actor_loss(
    log_probs: Sequence[float], entropies: Sequence[float], advantages: Sequence[float], weights: Sequence[float],
    entropy_scale: float,
) -> float:  # fmt: skip
    """Return the mean of -w (A log pi + eta H): equation 11 of the paper's actor."""
    terms = [
        -weight * (advantage * log_prob + entropy_scale * entropy)
        for weight, advantage, log_prob, entropy in zip(weights, advantages, log_probs, entropies, strict=True)
    ]
    return sum(terms) / len(terms)


class Recurrent:
    """One step of the recurrent layer, by its weights."""

    def __init__(self, before: Sequence[Array], gates: Sequence[Array], epsilon: float) -> None:
        """Take weight, scale and offset of the layer before it, and of its gates."""
        self._before, self._gates, self._epsilon = before, gates, epsilon

    def _normalised(self, layer: Sequence[Array], x: Sequence[float]) -> list[float]:
        weight, scale, offset = layer
        y = [sum(x[i] * float(weight[i, j]) for i in range(len(x))) for j in range(weight.shape[1])]
        mean = sum(y) / len(y)
        variance = sum((each - mean) ** 2 for each in y) / len(y)
        return [
            (each - mean) / math.sqrt(variance + self._epsilon) * float(s) + float(o)
            for each, s, o in zip(y, scale, offset, strict=True)
        ]

    def __call__(self, h: Sequence[float], z: Sequence[float], action: Sequence[float]) -> list[float]:
        """Return the next h."""
        x = [each / (1 + math.exp(-each)) for each in self._normalised(self._before, [*z, *action])]
        gates = self._normalised(self._gates, [*x, *h])
        size = len(h)
        found = []
        for k in range(size):
            reset = 1 / (1 + math.exp(-gates[k]))
            update = 1 / (1 + math.exp(-(gates[2 * size + k] - 1)))
            found.append(update * math.tanh(reset * gates[size + k]) + (1 - update) * h[k])
        return found


# -- the first Dreamer: Hafner et al. 2019, arXiv 1912.01603 -----------------------------------------------------------


def normal_divergence(mean: Array, std: Array, prior_mean: Array, prior_std: Array) -> float:
    """Return the KL divergence of normal distributions, summed over components."""
    total = 0.0
    for m, s, pm, ps in zip(mean, std, prior_mean, prior_std, strict=True):
        total += math.log(ps / s) + (s * s + (m - pm) ** 2) / (2 * ps * ps) - 0.5
    return total


def first_world_loss(
    decoded: Array,
    observed: Array,
    predicted: Array,
    rewards: Array,
    divergences: Sequence[float],
    kl_coeff: float,
    free_nats: float,
) -> float:
    """Return the mean of half squared errors of all steps [N], and the mean divergence, at least `free_nats`."""
    count, total = len(decoded), 0.0
    for n in range(count):
        total += 0.5 * sum((float(a) - float(b)) ** 2 for a, b in zip(decoded[n], observed[n], strict=True))
        total += 0.5 * (float(predicted[n]) - float(rewards[n])) ** 2
    return total / count + kl_coeff * max(free_nats, sum(divergences) / count)


def first_returns(rewards: Sequence[float], values: Sequence[float], gamma: float, lambda_: float) -> list[float]:
    """Return V(lambda) of the imagined states 0 to H - 1 (equation 6), by the mean of all V(k) that it is."""
    horizon = len(rewards) - 1
    found = []
    for start in range(horizon):
        left = horizon - start
        of_steps = [
            sum(gamma**n * rewards[start + n] for n in range(k)) + gamma**k * values[start + k]
            for k in range(1, left + 1)
        ]
        mixed = sum((1 - lambda_) * lambda_ ** (k - 1) * of_steps[k - 1] for k in range(1, left))
        found.append(mixed + lambda_ ** (left - 1) * of_steps[-1])
    return found
