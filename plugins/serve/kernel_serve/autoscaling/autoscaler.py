"""The decision for one deployment: what was reported, what the policy wants, and what is done about it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import cloudpickle

from kernel_serve.autoscaling.delays import Delays
from kernel_serve.autoscaling.own_policy import Policy, ask, load_policy
from kernel_serve.autoscaling.policy import AutoscalingContext
from kernel_serve.autoscaling.window import Window, patience_of
from kernel_serve.errors import DeploymentError
from kernel_serve.logs import logger
from kernel_serve.settings import AutoscalingConfig

_log = logger()

_RETRY_SECONDS = 60.0
"""After how long a policy that could not be loaded is tried again."""


class Autoscaler:
    """Says how many replicas a deployment is to have. It has no clock: `now` is in seconds and goes on evenly.

    Call `observe` whenever numbers of the routers are known, `decide` regularly and as soon as a request waits for a
    deployment without replicas. `trouble` says what is wrong with the policy, if anything is.
    """

    def __init__(self, settings: AutoscalingConfig, name: str = "") -> None:
        self.settings = settings
        self.name = name
        self.trouble = ""
        self.wanted: int | None = None
        """What the policy wanted last, within the bounds."""
        self._window = Window(settings.look_back_period_s, patience_of(settings.metrics_interval_s))
        self._delays = Delays(settings)
        self._policy: Policy | None = None
        self._policy_failed: float | None = None
        self._policy_state: Mapping[str, Any] = {}
        self._state_trouble = False
        """Whether it was told that the policy's state can't be kept."""

    def initial(self) -> int:
        """Return with how many replicas the deployment begins."""
        initial = self.settings.initial_replicas
        return self.settings.min_replicas if initial is None else initial

    def observe(self, now: float, queued: int, ongoing: int) -> None:
        """Take in how many requests wait in all routers, and how many replicas work on."""
        self._window.observe(now, max(0, queued), max(0, ongoing))

    def decide(
        self,
        now: float,
        current_target: int,
        ready: int,
        *,
        capacity: int | None = None,
        replicas: Mapping[str, float] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> int:
        """Return how many replicas there are to be from now on.

        `current_target` is what this, or somebody else, decided before, `ready` how many of them take requests,
        `capacity` for how many the cluster has room (None: any number); `replicas` and `metrics` are for own policies.
        """
        low, high = self._bounds(capacity)
        current = min(max(current_target, low), high)
        means = self._window.means(now)
        if means is None:
            self._delays.reset()
            return current
        queued_now, ongoing_now = self._window.latest(now) or (0, 0)
        context = AutoscalingContext(
            settings=self.settings, now=now, current_target=current, ready=ready,
            queued=means[0], ongoing=means[1], queued_now=queued_now, ongoing_now=ongoing_now,
            idle_s=self._window.idle_for(now), min_replicas=low, max_replicas=high,
            replicas=replicas or {}, metrics=metrics or {}, state=self._policy_state,
        )  # fmt: skip
        wanted = self._ask(context)
        if current == 0 and queued_now:
            wanted = max(wanted or 0, 1)  # whatever the policy says, or fails to: nobody else would ever answer
        if wanted is None:
            self._delays.reset()
            return current
        self.wanted = min(max(wanted, low), high)
        return min(max(self._delays.next_target(now, current, self.wanted, context.idle_s), low), high)

    def update(self, settings: AutoscalingConfig) -> None:
        """Go on with other settings, and with what is known."""
        if settings == self.settings:
            return
        if (settings.policy, settings.policy_arguments) != (self.settings.policy, self.settings.policy_arguments):
            self._policy = self._policy_failed = None
            self._policy_state = {}
            self.trouble = ""
        self.settings = self._delays.settings = settings
        self._window.length = settings.look_back_period_s
        self._window.patience = patience_of(settings.metrics_interval_s)

    def explanation(self, now: float, current_target: int) -> str:
        """Return in a sentence what is decided and why, for people who look at the status."""
        if self.trouble:
            return f"stays at {current_target}: {self.trouble}"
        means = self._window.means(now)
        if means is None or self.wanted is None:
            return f"stays at {current_target}: no numbers of requests are known"
        load = f"{means[0]:.1f} requests wait and {means[1]:.1f} are worked on"
        if self.wanted > current_target and self._delays.up_since is not None:
            held = now - self._delays.up_since
            return f"{load}: {self.wanted} are wanted since {held:.0f} of {self.settings.upscale_delay_s:g} s"
        if self.wanted < current_target:
            return f"{load}: {self.wanted} would do, which must hold for {self._delays.down_delay():g} s"
        return f"{load}: {current_target} {'is' if current_target == 1 else 'are'} right"

    def saved(self, epoch: float) -> dict[str, Any]:
        """Return what another life of the controller needs: how the deployment has swung, what an own policy remembers.

        What was reported is no part of it: it changes each second, and is reported again. `epoch` is when this clock
        was at 0, in seconds of one that both lives have.
        """
        kept = self._delays.saved(epoch)
        if state := self._pickled_policy_state():
            kept["policy_state"] = state
        return kept

    def restore(self, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Go on from what `saved` returned. There are no fewer replicas until the look-back period is known anew.

        For a moment only some of the routers may have been heard, so what is known then must be out of the means first.
        """
        self._delays.restore(saved, epoch)
        self._delays.not_fewer_before = now + self._window.patience + self._window.length
        if "policy_state" in saved:
            try:
                self._policy_state = pickle.loads(saved["policy_state"])
            except Exception as error:
                _log.warning("an autoscaling policy's state can't be read", deployment=self.name, error=str(error))

    def _pickled_policy_state(self) -> bytes:
        """Return what an own policy remembers, as bytes; none if that is nothing, or can't be kept."""
        if not self._policy_state:
            return b""
        try:
            return cloudpickle.dumps(dict(self._policy_state))  # type: ignore[no-any-return]
        except Exception as error:
            if not self._state_trouble:
                _log.warning("an autoscaling policy's state can't be kept", deployment=self.name, error=str(error))
            self._state_trouble = True
            return b""

    def _bounds(self, capacity: int | None) -> tuple[int, int]:
        low, high = self.settings.min_replicas, self.settings.max_replicas
        if capacity is None:
            return low, high
        return min(low, capacity), min(high, capacity)

    def _ask(self, context: AutoscalingContext) -> int | None:
        """Return what the policy wants; None if it fails, which is logged once and told by `trouble`."""
        if self._policy_failed is not None and context.now - self._policy_failed < _RETRY_SECONDS:
            return None
        try:
            if self._policy is None:
                self._policy = load_policy(self.settings)
            wanted, self._policy_state = ask(self._policy, context)
        except Exception as error:
            if self._policy is None:
                self._policy_failed = context.now
            self._note_trouble(error)
            return None
        self._policy_failed = None
        self.trouble = ""
        return wanted

    def _note_trouble(self, error: Exception) -> None:
        told = (
            str(error) if isinstance(error, DeploymentError) else f"the policy raised {type(error).__name__}: {error}"
        )
        if told != self.trouble:
            _log.warning("autoscaling policy failed", deployment=self.name, error=told, exc_info=error)
        self.trouble = told
