"""The service PubSub."""

from __future__ import annotations

import time
from typing import Any

from kernel_control_grpc.feeds import Close, Topics
from kernel_control_grpc.mailbox import Mailbox
from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service
from kernel_processes.head.control_plane import ServedHead
from kernel_spec.errors import OptionError

MAXIMUM_BYTES = 1 << 20


class PubSub(Service):
    """Messages to whoever listens at the moment."""

    def __init__(self, head: ServedHead) -> None:
        super().__init__(head)
        self._topics = Topics()

    def publish(self, request: Any) -> Any:
        """Send a message to all subscribers of its topic."""
        _check([request.topic])
        size = len(request.data)
        if size > MAXIMUM_BYTES:
            raise OptionError(
                f"a message has at most {MAXIMUM_BYTES:,} bytes, this one {size:,}; put large values into KeyValue "
                "and publish their keys"
            )
        message = messages.TopicMessage(topic=request.topic, data=request.data, time=time.time())
        return messages.PublishResponse(subscribers=self._topics.publish(request.topic, message, message.ByteSize()))

    def subscribe(self, request: Any, mailbox: Mailbox) -> Close:
        """Send the messages of some topics."""
        _check(request.topics)
        return self._topics.subscribe(set(request.topics), mailbox)


def _check(topics: Any) -> None:
    if not topics or not all(topics):
        raise OptionError("the topic is missing: give a text that is not empty")
