"""The service KeyValue."""

from __future__ import annotations

from typing import Any

from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service, page_of


class KeyValue(Service):
    """Small values under names of users' own."""

    def get(self, request: Any) -> Any:
        """Return a value."""
        return messages.GetValueResponse(value=self.ask("kv_get", request.namespace, request.key))

    def put(self, request: Any) -> Any:
        """Store a value."""
        stored = self.ask("kv_put", request.namespace, request.key, request.value, not request.keep_existing)
        return messages.PutValueResponse(stored=stored)

    def delete(self, request: Any) -> Any:
        """Remove a value."""
        return messages.DeleteValueResponse(existed=self.ask("kv_delete", request.namespace, request.key))

    def keys(self, request: Any) -> Any:
        """Return a page of keys."""
        keys = self.ask("kv_keys", request.namespace, request.prefix)
        page, token = page_of(keys, lambda key: f"after {key.hex()}", request)  # hexadecimal has the same order
        return messages.ListKeysResponse(keys=page, next_page_token=token)
