"""What was heard of pods, put together: lists, events of a watch, and answers to our own calls, in any order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

REMEMBERED = 10_000
"""Pods that are gone and still known to be, so that late news of them bring none back."""


class PodMirror:
    """Pods by name. Of two states of a pod the one with the higher version counts, whichever is heard last."""

    def __init__(self) -> None:
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._gone: set[str] = set()
        self._order: deque[str] = deque()

    def pods(self) -> list[Mapping[str, Any]]:
        """Return the pods that there are, by name."""
        return [self._pods[name] for name in sorted(self._pods)]

    def replace(self, pods: Iterable[Mapping[str, Any]], version: str) -> None:
        """Take a whole list in. A pod that is newer than the list stays, though it is not in it."""
        newer = {name: pod for name, pod in self._pods.items() if _number(_version(pod)) > _number(version)}
        self._pods = {}
        for pod in pods:
            self.take(pod)
        for pod in newer.values():
            self.take(pod)

    def take(self, pod: Mapping[str, Any]) -> None:
        """Take in that a pod is as it is shown here."""
        name, uid = pod["metadata"]["name"], pod["metadata"].get("uid", "")
        if uid in self._gone:
            return
        known = self._pods.get(name)
        if known is None or _number(_version(pod)) >= _number(_version(known)):
            self._pods[name] = pod

    def remove(self, pod: Mapping[str, Any]) -> None:
        """Take in that a pod is gone."""
        name, uid = pod["metadata"]["name"], pod["metadata"].get("uid", "")
        if uid not in self._gone:
            self._gone.add(uid)
            self._order.append(uid)
            if len(self._order) > REMEMBERED:
                self._gone.discard(self._order.popleft())
        known = self._pods.get(name)
        if known is not None and known["metadata"].get("uid", "") == uid:
            del self._pods[name]


def _version(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("resourceVersion", ""))


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
