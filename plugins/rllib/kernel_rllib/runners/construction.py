"""Report where a runner is while it is constructed: its process answers no call yet, and writes to the session."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field

import kernel
from kernel_rllib.envs.whereabouts import Whereabouts, whereabouts_of
from kernel_spec.errors import KernelError

_NAMESPACE = "kernel_rllib.runners"
_EVERY_S = 0.5
"""The interval at which a process looks where its constructor is. One that ends before the first is not reported."""


@dataclass(frozen=True)
class Construction:
    """The making of one runner: what its process tells of it, others can read.

    Attributes:
        key: The name of the word that is left.
    """

    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Leave word again and again of where this thread is, until it comes out of the `with`."""
        thread, is_over = threading.get_ident(), threading.Event()
        teller = threading.Thread(target=self._tell, args=(thread, is_over), name="construction", daemon=True)
        teller.start()
        try:
            yield
        finally:
            is_over.set()
            teller.join()

    def whereabouts(self) -> Whereabouts:
        """Return where the constructor was when its process last looked; nowhere, where there is no word."""
        word = kernel.KeyValue(_NAMESPACE).get(self.key)
        return Whereabouts(moves=0) if word is None else Whereabouts(**json.loads(word))

    def forget(self) -> None:
        """Remove the word that was left."""
        kernel.KeyValue(_NAMESPACE).delete(self.key)

    def _tell(self, thread: int, is_over: threading.Event) -> None:
        said: Whereabouts | None = None
        with suppress(KernelError):  # The session is over, and the report is not needed.
            while not is_over.wait(_EVERY_S):
                found = whereabouts_of(thread)
                if found != said:
                    said = found
                    kernel.KeyValue(_NAMESPACE).put(self.key, json.dumps(asdict(found)).encode())
            if said is not None:
                self.forget()
