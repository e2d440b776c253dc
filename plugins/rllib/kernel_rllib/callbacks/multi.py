"""Several classes of callbacks as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from kernel_rllib.callbacks.callbacks import DefaultCallbacks


class MultiCallbacks(DefaultCallbacks):
    """Stands for several callbacks: each event calls all of them, in order.

    Attributes:
        members: The callbacks that it calls, in order.
    """

    classes: ClassVar[tuple[Callable[[], Any], ...]] = ()
    """The callbacks that it combines, each made without arguments."""

    def __init__(self, callbacks: Sequence[Callable[[], Any]] = ()) -> None:
        """Make the objects of these classes."""
        super().__init__()
        self.members = [make() for make in (*self.classes, *callbacks)]


def make_multi_callbacks(callback_class_list: Sequence[Callable[[], Any]]) -> type[MultiCallbacks]:
    """Return a class of callbacks that stands for all these classes."""
    return type("Several", (MultiCallbacks,), {"classes": tuple(callback_class_list)})
