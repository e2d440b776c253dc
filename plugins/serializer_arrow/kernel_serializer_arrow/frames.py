"""pandas frames and series. Numbers and Arrow-backed columns go out of band by themselves; text in object columns
would be pickled string by string, so it goes as Arrow arrays when that loses nothing: only `str` and None.
"""

from __future__ import annotations

import copyreg
from typing import Any

_PROTOCOL = 5
_LEAST_TEXTS = 100
_SAMPLE = 1000
_ONLY = frozenset({str, type(None)})
_NEW = copyreg.__newobj__  # type: ignore[attr-defined]
_MANAGERS = frozenset({"BlockManager", "SingleBlockManager"})


class _AsReduced:
    """Is pickled as `reduced` says: stands for a part of a frame, of which something was replaced."""

    __slots__ = ("reduced",)

    def __init__(self, reduced: tuple[Any, ...]) -> None:
        self.reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def reduce_frame(frame: Any) -> tuple[Any, ...]:
    """Return how a `pandas.DataFrame` or `Series` travels: as pandas pickles it, with text as Arrow arrays."""
    reduced = frame.__reduce_ex__(_PROTOCOL)
    replacements: dict[int, Any] = {}
    for block in getattr(getattr(frame, "_mgr", None), "blocks", ()):
        values = block.values
        if type(values).__name__ == "ndarray" and values.dtype.kind == "O":
            text = _as_text(values)
            if text is not None:
                replacements[id(values)] = text
    return _replaced(reduced, replacements) if replacements else reduced  # type: ignore[no-any-return]


def _replaced(value: Any, replacements: dict[int, Any]) -> Any:
    """Return `value` with parts replaced, by their ids, through what pandas keeps its arrays in."""
    kind = type(value)
    if id(value) in replacements:
        return replacements[id(value)]
    if kind in (tuple, list):
        return kind(_replaced(item, replacements) for item in value)
    if kind is dict:
        return {key: _replaced(item, replacements) for key, item in value.items()}
    if kind.__name__ in _MANAGERS or hasattr(kind, "mgr_locs"):
        function, *rest = _replaced(value.__reduce_ex__(_PROTOCOL), replacements)
        # Pickle insists that __newobj__ makes the class of what it stands for.
        replacement = _AsReduced((_new if function is _NEW else function, *rest))
        # Kept, so that one part that is met twice stays one part, and its id is not given away.
        replacements[id(value)] = replacement
        return replacement
    return value


def _new(cls: type, *args: Any) -> Any:
    return cls.__new__(cls, *args)


def _as_text(values: Any) -> _AsReduced | None:
    """Return what an object array of text travels as, None if it is not all text or is hardly worth it."""
    if values.size < _LEAST_TEXTS:
        return None
    order = "C" if values.flags.c_contiguous else "F"
    flat = values.ravel(order)
    # Pickle writes a string that occurs again as a back reference: smaller and quicker than what Arrow could do.
    if len(set(map(id, flat[:_SAMPLE]))) < min(_SAMPLE, len(flat)) // 2:
        return None
    if type(flat[0]) not in _ONLY or not _ONLY.issuperset(map(type, flat)):
        return None
    import pyarrow

    try:
        texts = pyarrow.array(flat, pyarrow.large_string(), from_pandas=False)
    except (UnicodeError, pyarrow.ArrowException):  # lone surrogates are str, and no text
        return None
    return _AsReduced((_objects_of, (texts, values.shape, order)))


def _objects_of(texts: Any, shape: tuple[int, ...], order: str) -> Any:
    """Undo `_as_text`."""
    flat = texts.to_numpy(zero_copy_only=False)
    if not flat.flags.writeable:
        flat = flat.copy()
    return flat.reshape(shape, order=order)
