"""The quick `@dataclass` makes what the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kernel_spec.dataclass import dataclass as quick

Decorator = Callable[..., Any]
OPTIONS = [{"frozen": frozen, "slots": slots, "eq": eq} for frozen in (0, 1) for slots in (0, 1) for eq in (0, 1)]


def make(dataclass: Decorator, **options: Any) -> type[Any]:
    @dataclass(**options)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = dataclasses.field(default=2, compare=False)
        labels: list[str] = dataclasses.field(default_factory=list, repr=False, hash=False, compare=False)
        found: str = dataclasses.field(default="here", init=False)
        made: list[int] = dataclasses.field(default_factory=lambda: [1], init=False, compare=False)
        name: str = dataclasses.field(kw_only=True, default="n")

    Point.__qualname__ = "Point"
    return Point


def outcome(of: Callable[[], Any]) -> Any:
    try:
        return of()
    except Exception as error:
        return type(error), str(error).replace("make.<locals>.", "")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_objects_are_the_same(options: dict[str, Any]) -> None:
    seen = []
    for Point in make(dataclasses.dataclass, **options), make(quick, **options):
        point, other = Point(1, name="m"), Point(1)
        seen.append(
            [
                repr(point),
                repr(Point(1, 3, ["a"])),
                [getattr(Point(1, 3, ["a"]), field.name) for field in dataclasses.fields(Point)],
                Point(1) == Point(1, 5),
                Point(1) == Point(2),
                Point(1).__eq__(1) is NotImplemented,
                outcome(lambda Point=Point: hash(Point(1)) == hash(Point(1, 7))),
                outcome(lambda Point=Point: Point()),
                outcome(lambda Point=Point: Point(1, 2, [], "m")),
                outcome(lambda Point=Point: Point(1, found="there")),
                outcome(lambda point=point: setattr(point, "x", 5)),
                outcome(lambda other=other: delattr(other, "name")),
                outcome(lambda point=point: setattr(point, "new", 5)) is None,
                repr(dataclasses.replace(point, y=9)),
                dataclasses.asdict(Point(4)),
                dataclasses.is_dataclass(Point),
                Point.__match_args__,
                str(inspect.signature(Point)),
                Point.__init__.__annotations__,
                repr(copy.copy(Point(1))),
                hasattr(point, "__dict__"),
                Point.__dataclass_params__.frozen,
                Point(1).labels is Point(1).labels,
            ]
        )
    assert seen[0] == seen[1]


def test_what_a_class_says_itself_stays() -> None:
    @quick(frozen=True, slots=True)
    class Own:
        """Own."""

        x: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x + 1)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return f"<{self.x}>"

    assert repr(Own(1)) == "<2>" and Own(1) == 5 and hash(Own(3)) == 7


def test_classes_inherit_both_ways() -> None:
    @quick(frozen=True, slots=True)
    class Base:
        x: int
        y: int = 2

    @quick(frozen=True, slots=True)
    class Quick(Base):
        z: int = 3

    @dataclasses.dataclass(frozen=True)
    class Standard(Base):
        z: int = 3

    for Child in (Quick, Standard):
        child = Child(1, z=5)
        assert (
            (child.x, child.y, child.z) == (1, 2, 5) and child == Child(1, 2, 5) and hash(child) == hash(Child(1, 2, 5))
        )
        assert child != Base(1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            child.x = 2
    assert repr(Quick(1)).endswith("Quick(x=1, y=2, z=3)") and repr(Base(1)).endswith("Base(x=1, y=2)")


@quick(frozen=True, slots=True)
class Frozen:
    """At the top, for pickle."""

    x: int
    y: Any = None


@quick(slots=True)
class Open:
    x: int
    y: Any = None


@pytest.mark.parametrize("cls", [Frozen, Open])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(cls: type[Any], protocol: int) -> None:
    one = cls(1, [2])
    assert pickle.loads(pickle.dumps(one, protocol)) == one and copy.deepcopy(one) == one


def test_reprs_end() -> None:
    one = Open(1)
    one.y = one
    assert repr(one) == "Open(x=1, y=...)"


def test_nothing_is_compiled_before_it_is_used() -> None:
    program = (
        "import builtins, dataclasses\nfrom kernel_spec.dataclass import dataclass\n"
        "compiled = []\n"
        "dataclasses.exec = lambda *given: compiled.append('standard') or exec(*given)\n"
        "import kernel_spec.dataclass as module\n"
        "module.exec = lambda text, names: compiled.append(text.split('(')[0]) or exec(text, names)\n"
        "@dataclass(frozen=True, slots=True)\nclass A:\n    'A'\n    x: int\n"
        "print(compiled); A(1); A(2); print(compiled); A(1) == A(1); A(1) == A(1); print(compiled)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['def __init__']", "['def __init__', 'def __eq__']"]
