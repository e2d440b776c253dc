"""Arrays of numpy as pickles, as packed columns of RLlib have them. Reading one runs no code that it names.

A pickle says which functions are to be called with what. Here nothing of numpy, and nothing of the program, is within
its reach: the few names that a pickled array has stand for small classes, which check what they are given.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.errors import DataError

PROTOCOL = 3
"""The newest protocol that Python and numpy of 0.8.5's time can read."""
_DTYPE = re.compile(r"^[?bBhHiIlLqQefdg]$|^[biufSU][0-9]{0,6}$")
_NEW, _OLD = b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"


def to_pickle(array: Array) -> bytes:
    """Return a pickle of an array, with the names that numpy had before its second release, and has still.

    Raises:
        DataError: If its entries are objects of Python.
    """
    if array.dtype.hasobject:
        raise DataError(
            f"a column of objects ({array.dtype}) can't be packed: leave it out of output_compress_columns, and it is "
            "written as JSON"
        )
    return pickle.dumps(np.ascontiguousarray(array), PROTOCOL).replace(_NEW, _OLD, 1)


def of_pickle(data: bytes) -> Any:
    """Return what a pickle holds: an array, or numbers, texts, lists, tuples and dicts of them.

    Raises:
        DataError: If it holds anything else, or is damaged.
    """
    try:
        return _plain(_ArrayUnpickler(io.BytesIO(data)).load())
    except DataError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise DataError(
            f"a packed column can't be read ({type(error).__name__}: {error}): the file is damaged there, or it was "
            "made to do harm"
        ) from None


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of arrays alone."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise DataError(
                f"a packed column asks for {module}.{name}, and only arrays of numpy are read from files: whoever "
                "wrote it may have meant to run a program here. Don't read files that you don't trust, and write "
                "columns of objects unpacked"
            )
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise DataError("a packed column refers to what is outside of it: only arrays of numpy are read from files")


class _DType:
    """Builds a dtype from its state in a pickle."""

    def __init__(self, code: str, *_: Any) -> None:
        if isinstance(code, bytes):
            code = code.decode("ascii")
        if not isinstance(code, str) or not (_DTYPE.match(code) or code in ("O", "O8")):
            raise DataError(f"a packed column has the dtype {code!r}; those of numbers, flags and texts are read")
        self._dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if isinstance(order, bytes):
            order = order.decode("ascii")
        if order in ("<", ">"):
            self._dtype = self._dtype.newbyteorder(order)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype


class _Pickled:
    """An array whose contents come after it in the pickle."""

    array: Array

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        self.array = _array(content, kind, shape, "F" if by_columns else "C")


class _ArrayName:
    """Stands for the class `numpy.ndarray`, which pickles name and never call."""


def _array(content: Any, kind: Any, shape: Any, order: Any) -> Array:
    if not isinstance(kind, _DType) or not isinstance(shape, tuple) or any(type(size) is not int for size in shape):
        raise DataError("a packed column has an array without a dtype or a shape: the file is damaged there")
    if kind.dtype.hasobject:
        made = np.empty(len(content), object)
        made[:] = [_plain(entry) for entry in content]
        return made.reshape(shape, order="F" if order == "F" else "C")
    if isinstance(content, str):  # Python 2 wrote bytes as texts
        content = content.encode("latin1")
    found = np.frombuffer(bytes(content), kind.dtype).reshape(shape, order="F" if order == "F" else "C")
    return found.astype(kind.dtype.newbyteorder("="))  # a copy, which may be written to


def _reconstruct(subtype: Any, shape: Any, kind: Any) -> _Pickled:
    if subtype is not _ArrayName:
        raise DataError("a packed column has an array of a class of its own: only arrays of numpy are read from files")
    return _Pickled()


def _frombuffer(content: Any, kind: Any, shape: Any, order: Any, *_: Any) -> Array:
    return _array(content, kind, shape, order)


def _scalar(kind: Any, content: Any = b"") -> Any:
    return _array(content, kind, (1,), "C")[0]


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise DataError("a packed column has a text in an encoding that pickles of arrays don't have")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Return what the call `bytes()` is: pickles of Python 2's protocols have it for empty arrays."""
    return b""


def _plain(value: Any) -> Any:
    """Return a value with arrays in the places of what stood for them."""
    if isinstance(value, _Pickled):
        return value.array
    if isinstance(value, Mapping):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(entry) for entry in value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.ndarray, np.generic)):
        return value
    raise DataError(f"a packed column holds a {type(value).__name__}: only arrays of numpy are read from files")


_NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ArrayName,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
    **{(module, "bytes"): _no_bytes for module in ("builtins", "__builtin__")},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _frombuffer for core in ("core", "_core")},
}
"""The names in pickles of arrays, of all releases of numpy, and the functions here that they stand for."""
