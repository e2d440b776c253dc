"""Bind calls first and make them later, by `ray.dag`. A graph consists of ordinary calls, and passes references on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__tracebackhide__ = True  # A failed task's lines are the program's.

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "CompiledGraph",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]


class DAGNode:
    """Represents a call that is not made yet; its arguments may be other nodes."""

    def __init__(self, target: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        self._target, self._args, self._kwargs = target, args, dict(kwargs or {})

    def execute(self, *inputs: Any, **named: Any) -> Any:
        """Make all calls that this one needs, and this one; return its reference (of a class: a handle) at once.

        `inputs` and `named` are what an `InputNode` stands for. Every execution has actors of its own.
        """
        return Execution(inputs, named).of(self)

    def experimental_compile(self, **options: Any) -> CompiledGraph:
        """Return the graph to be executed often. There is nothing to prepare: calls go from process to process."""
        return CompiledGraph(self)

    def _make(self, execution: Execution) -> Any:
        return self._target.remote(*execution.resolved(self._args), **execution.resolved(self._kwargs))

    def __reduce__(self) -> Any:
        return type(self), (self._target, self._args, self._kwargs)


class FunctionNode(DAGNode):
    """Represents a call of a remote function."""


class ClassMethodNode(DAGNode):
    """Represents a call of an actor's method: of a handle's, or (as a pair of node and name) of an actor to be made.

    In the latter case, calls that were bound before it are made before it, even if nobody needs their results, because
    they may change the actor.
    """

    _before: ClassMethodNode | None = None

    def _make(self, execution: Execution) -> Any:
        waiting, call = [], self._before
        while call is not None and not execution.has(call):
            waiting.append(call)
            call = call._before
        for earlier in reversed(waiting):
            execution.of(earlier)
        method = self._target
        if isinstance(method, tuple):
            actor, name = method
            method = getattr(execution.of(actor), name)
        return method.remote(*execution.resolved(self._args), **execution.resolved(self._kwargs))

    def __reduce__(self) -> Any:
        return ClassMethodNode, (self._target, self._args, self._kwargs), {"_before": self._before}


class ClassNode(DAGNode):
    """Represents an actor to be made; `node.method.bind(...)` is a call of it."""

    _last: ClassMethodNode | None = None
    """The call of this actor that was bound last."""

    def __getattr__(self, name: str) -> _Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Method(self, name)


class _Method:
    """Represents a method of an actor that is not made yet."""

    def __init__(self, actor: ClassNode, name: str) -> None:
        self._actor, self._name = actor, name

    def bind(self, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Return the call, not made yet."""
        call = ClassMethodNode((self._actor, self._name), args, kwargs)
        call._before, self._actor._last = self._actor._last, call
        return call


class InputNode(DAGNode):
    """Represents the arguments of `execute`. `node[0]` and `node.name` are one of several, or an item of a sole one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(None)

    def __enter__(self) -> InputNode:
        return self

    def __exit__(self, *exception: object) -> None:
        """There is nothing to end."""

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        return InputAttributeNode(self, (key, False))

    def __getattr__(self, name: str) -> InputAttributeNode:
        if name.startswith("_"):
            raise AttributeError(name)
        return InputAttributeNode(self, (name, True))

    def _make(self, execution: Execution) -> Any:
        if len(execution.inputs) == 1 and not execution.named:
            return execution.inputs[0]
        raise ValueError("the graph is given several values; use node[0] or node.name to say which")


class InputAttributeNode(DAGNode):
    """Represents one of the arguments of `execute`, or a part of a single one."""

    def _make(self, execution: Execution) -> Any:
        key, is_attribute = self._args
        if len(execution.inputs) == 1 and not execution.named:
            return getattr(execution.inputs[0], key) if is_attribute else execution.inputs[0][key]
        return execution.named[key] if isinstance(key, str) else execution.inputs[key]


class MultiOutputNode(DAGNode):
    """Represents several calls, whose references are a list."""

    def __init__(self, nodes: Any, *others: Any) -> None:
        super().__init__(None, (list(nodes),))

    def _make(self, execution: Execution) -> Any:
        return execution.resolved(self._args)[0]

    def __reduce__(self) -> Any:
        return MultiOutputNode, (self._args[0],)


class CompiledGraph:
    """Represents a graph that is executed often."""

    def __init__(self, node: DAGNode) -> None:
        self._node = node

    def execute(self, *inputs: Any, **named: Any) -> Any:
        """Execute the graph; return its reference, or a list of them."""
        return self._node.execute(*inputs, **named)

    async def execute_async(self, *inputs: Any, **named: Any) -> Any:
        """Execute the graph; return its reference, which can be awaited."""
        return self._node.execute(*inputs, **named)

    def teardown(self, kill_actors: bool = False) -> None:
        """There is nothing to take down."""


class Execution:
    """Makes the calls of one execution: each node once, however often it is needed."""

    def __init__(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.inputs, self.named = inputs, named
        self._made: dict[int, Any] = {}

    def has(self, node: DAGNode) -> bool:
        """Return whether a node was made already."""
        return id(node) in self._made

    def of(self, node: DAGNode) -> Any:
        """Return what a node has become."""
        if id(node) not in self._made:
            self._made[id(node)] = node._make(self)
        return self._made[id(node)]

    def resolved(self, value: Any) -> Any:
        """Return a value with what its nodes have become in their places."""
        if isinstance(value, DAGNode):
            return self.of(value)
        if type(value) in (list, tuple):
            return type(value)(self.resolved(item) for item in value)
        if type(value) is dict:
            return {key: self.resolved(item) for key, item in value.items()}
        return value
