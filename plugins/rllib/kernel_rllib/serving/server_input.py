"""Training from the episodes of clients, where no environment is here: `config.offline_data(input_=...)`, or as one."""

from __future__ import annotations

import logging
import threading
from typing import Any

from gymnasium import Space

from kernel_rllib.envs.external import MOST_EPISODES, ExternalEnv
from kernel_rllib.errors import ConfigError
from kernel_rllib.serving.server import PolicyServer

_log = logging.getLogger("kernel.rllib")


class PolicyServerInput(ExternalEnv):
    """Serves a policy to clients, and is sampled as an environment: episodes are those that clients play."""

    def __init__(
        self,
        ioctx: Any = None,
        address: str = "127.0.0.1",
        port: int = 9900,
        idle_timeout: float | None = None,
        *,
        token: str | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        max_concurrent: int = MOST_EPISODES,
    ) -> None:
        """Take the settings; it listens from the first sample on.

        Args:
            ioctx: The context with the settings of the algorithm, whose spaces it takes; or None.
            address: The name or address of an interface of this machine.
            port: The port.
            idle_timeout: Has no effect: samples wait for clients.
            token: The token of clients; see `PolicyServer`.
            observation_space: The observation space of clients, where `ioctx` does not say it.
            action_space: The action space of clients, likewise.
            max_concurrent: The largest number of episodes that are open at a time.

        Raises:
            ConfigError: If nothing says the spaces.
        """
        config = getattr(ioctx, "config", None) or {}
        observed = observation_space or config.get("observation_space")
        chosen = action_space or config.get("action_space")
        if observed is None or chosen is None:
            raise ConfigError(
                "nothing says what clients of the policy server observe and do: give observation_space and "
                "action_space, to it or to environment() of the config"
            )
        super().__init__(chosen, observed, max_concurrent)
        self._address, self._port, self._token = address, port, token
        self._changed = threading.Condition()
        self._server: PolicyServer | None = None
        self._is_closed = False

    @property
    def server(self) -> PolicyServer:
        """The server, once it listens."""
        with self._changed:
            self._changed.wait_for(lambda: self._server is not None or self._is_closed)
            if self._server is None:
                raise ConfigError("the policy server was closed before it listened")
            return self._server

    def run(self) -> None:
        """Serve until it is closed."""
        with self._changed:
            if self._is_closed:
                return
            self._server = PolicyServer(self, self._address, self._port, self._token)
            self._changed.notify_all()
        _log.info("Starting policy server at %s:%d", self._server.address, self._server.port)
        self._server.serve_forever()

    def close(self) -> None:
        """Listen no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.close()
