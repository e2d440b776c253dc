"""A real Redis for tests, in a directory of its own, reached by a private socket. It needs the program redis-server."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

START_SECONDS = 120.0


class RedisServer:
    """A Redis that can be killed and started again. `url` is its address, `admin` a client with all rights."""

    def __init__(self, *settings: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.admin = redis.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0))
        self.settings = list(settings)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it has loaded its data."""
        place = ["--dir", str(self.directory), "--unixsocket", str(self.socket), "--port", "0"]
        self.process = subprocess.Popen(
            ["redis-server", *place, "--save", "", *self.settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if time.monotonic() > deadline:
                raise AssertionError(f"the Redis at {self.url} did not answer within {START_SECONDS:.0f} s")
            time.sleep(0.01)

    def answers(self) -> bool:
        """Return whether it does; a refusal is an answer."""
        if self.process.poll() is not None:
            raise AssertionError(f"redis-server ended with exit code {self.process.returncode}")
        try:
            self.admin.ping()
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        finally:
            self.admin.connection_pool.disconnect()
        return True

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def remove(self) -> None:
        """End it and remove what it wrote."""
        self.admin.close()
        self.kill()
        shutil.rmtree(self.directory)
