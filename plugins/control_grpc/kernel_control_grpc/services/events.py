"""The service Events."""

from __future__ import annotations

from typing import Any

from kernel_control_grpc.feeds import EventFeed
from kernel_control_grpc.mailbox import Mailbox
from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service
from kernel_processes.head.deferred import Deferred
from kernel_spec.errors import OptionError
from kernel_spec.observers import STATES


class Events(Service):
    """The events of a cluster."""

    def watch(self, request: Any, mailbox: Mailbox) -> Deferred:
        """Send events, from when every node reports them."""
        for kind in request.kinds:
            if kind not in STATES:
                raise OptionError(f"there are no events of the kind {kind!r}; the kinds are {', '.join(STATES)}")

        def happened(event: Any) -> None:
            detail = {name: str(value) for name, value in event.detail.items() if value is not None}
            message = messages.Event(kind=event.kind, state=event.state, id=event.id, time=event.time, detail=detail)
            mailbox.put(message, message.ByteSize())

        close = EventFeed(request.kinds, happened).subscribe(self.head.observation)
        deferred = Deferred()
        # The nodes answer any question only after they have received the request for their events.
        self.ask("show_output").when_done(lambda answer: deferred.set(close))
        return deferred
