"""The decision for one deployment: from reports to what the policy wants, and to what is done about it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import cloudpickle

from kernel_serve.autoscaling.delays import Delays
from kernel_serve.autoscaling.own_policy import ask, load_policy
from kernel_serve.autoscaling.policy import AutoscalingContext
from kernel_serve.autoscaling.policy_wrappers import Policy
from kernel_serve.autoscaling.window import Window, patience_of
from kernel_serve.errors import DeploymentError
from kernel_serve.logs import logger
from kernel_serve.settings import AutoscalingConfig

_log = logger()

_RETRY_SECONDS = 60.0
"""Seconds until a policy that could not be loaded is tried again."""


class Autoscaler:
    """Decides how many replicas a deployment should have.

    It has no clock: `now` is in seconds of a steady clock. Call `observe` whenever the routers' numbers are known, and
    `decide` regularly, and as soon as a request waits for a deployment without replicas. `trouble` says what is wrong
    with the policy, "" if nothing is.
    """

    def __init__(self, settings: AutoscalingConfig, name: str = "") -> None:
        self.settings = settings
        self.name = name
        self.trouble = ""
        self.wanted: int | None = None
        """The number that the policy wanted last, within the bounds."""
        self._window = Window(settings.look_back_period_s, patience_of(settings.metrics_interval_s))
        self._delays = Delays(settings)
        self._policy: Policy | None = None
        self._policy_failed: float | None = None
        self._policy_state: Mapping[str, Any] = {}
        self._state_trouble = False
        """Whether it was logged that the policy's state can't be saved."""

    def initial(self) -> int:
        """Return the number of replicas with which the deployment begins."""
        initial = self.settings.initial_replicas
        return self.settings.min_replicas if initial is None else initial

    def observe(self, now: float, queued: int, ongoing: int) -> None:
        """Take in how many requests wait in all routers, and how many the replicas work on."""
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
        """Return the number of replicas that there should be from now on.

        `current_target` is the number that was decided before, `ready` how many of them take requests, `capacity` for
        how many the cluster has room (None: any number). `replicas` and `metrics` are for users' policies.
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
            wanted = max(wanted or 0, 1)  # whatever the policy says: without a replica the requests would wait for ever
        if wanted is None:
            self._delays.reset()
            return current
        self.wanted = min(max(wanted, low), high)
        return min(max(self._delays.next_target(now, current, self.wanted, context.idle_s), low), high)

    def update(self, settings: AutoscalingConfig) -> None:
        """Go on with other settings. What was observed stays."""
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
        """Return in a sentence what is decided and why, for the status."""
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
        """Return what a restarted controller needs: how the deployment has swung, and the state of a user's policy.

        What was reported is not included: it changes each second, and is reported again. `epoch` is the time at which
        this clock was at 0, in seconds of a clock that both processes share.
        """
        kept = self._delays.saved(epoch)
        if state := self._pickled_policy_state():
            kept["policy_state"] = state
        return kept

    def restore(self, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Go on from what `saved` returned.

        The number of replicas does not fall until a whole look-back period is known.

        At first the reports of some routers may be missing, so these means must be over before they count.
        """
        self._delays.restore(saved, epoch)
        self._delays.not_fewer_before = now + self._window.patience + self._window.length
        if "policy_state" in saved:
            try:
                self._policy_state = pickle.loads(saved["policy_state"])
            except Exception as error:
                _log.warning("an autoscaling policy's state can't be read", deployment=self.name, error=str(error))

    def _pickled_policy_state(self) -> bytes:
        """Return the state of a user's policy, pickled; b"" if it is empty, or can't be pickled."""
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
        """Return what the policy wants; None if it fails, which is logged once and kept as `trouble`."""
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
