"""Give a one-sentence hint for each known kind of value that can't leave its process."""

from __future__ import annotations

from typing import Any

_LOCK = "Create the lock where it is used, or leave it out in __getstate__; one lock for all processes is an actor."
_FILE = "Send the path and open the file inside the task, or send what was read from it."
_SOCKET = "Send the address and connect inside the task, or keep the connection in an actor."
_DATABASE = "Send what is needed to connect and connect inside the task, or keep the connection in an actor."
_GENERATOR = "Send list(...) of it, or make the generator inside the task."
_COROUTINE = "Send the function and its arguments, and await it inside the task or an async actor."
_THREAD = "Start threads where they work: inside the task or the actor."
_LOOP = "Use asyncio.get_running_loop() inside an async actor."
_FRAME = "Send text: traceback.format_exc(), or the values that you want out of it."
_WEAK = "Send the object itself, or leave the weak reference out in __getstate__."
_QUEUE = "Use an actor that holds the queue, and send its handle."
_PROCESS = "Send its process id, or start it inside the task."
_POINTER = "Copy the data out (bytes, numpy.array) and send the copy."
_MODULE = "Import the module inside the function."
_CUDA = "Move it to the host first: tensor.cpu()."
_CONTEXT = "Read its value with .get() and send that."
_STREAM = "Send the references that it yields, list(stream), or their values."
_MATCH = "Send .group(), .groupdict() or .span() of the match."

# By full name, so that nothing is imported. Bases count: an SSL socket is a socket.
_REMEDIES = {
    "_thread.lock": _LOCK,
    "_thread.RLock": _LOCK,
    "threading.Condition": _LOCK,
    "threading.Event": _LOCK,
    "threading.Semaphore": _LOCK,
    "threading.Barrier": _LOCK,
    "multiprocessing.synchronize.SemLock": _LOCK,
    "_io._IOBase": _FILE,
    "mmap.mmap": _FILE,
    "posix.ScandirIterator": _GENERATOR,
    "_socket.socket": _SOCKET,
    "_ssl._SSLContext": _SOCKET,
    "select.epoll": _SOCKET,
    "sqlite3.Connection": _DATABASE,
    "sqlite3.Cursor": _DATABASE,
    "psycopg2.extensions.connection": _DATABASE,
    "psycopg.Connection": _DATABASE,
    "sqlalchemy.engine.base.Engine": _DATABASE,
    "sqlalchemy.engine.base.Connection": _DATABASE,
    "pymongo.mongo_client.MongoClient": _DATABASE,
    "redis.client.Redis": _DATABASE,
    "builtins.generator": _GENERATOR,
    "builtins.async_generator": _GENERATOR,
    "kernel.api.generators.ObjectRefGenerator": _STREAM,
    "builtins.coroutine": _COROUTINE,
    "_asyncio.Task": _COROUTINE,
    "_asyncio.Future": _COROUTINE,
    "concurrent.futures._base.Future": _COROUTINE,
    "threading.Thread": _THREAD,
    "_thread._local": _THREAD,
    "concurrent.futures._base.Executor": _THREAD,
    "asyncio.events.AbstractEventLoop": _LOOP,
    "builtins.frame": _FRAME,
    "builtins.traceback": _FRAME,
    "weakref.ReferenceType": _WEAK,
    "weakref.ProxyType": _WEAK,
    "weakref.CallableProxyType": _WEAK,
    "weakref.WeakKeyDictionary": _WEAK,
    "weakref.WeakValueDictionary": _WEAK,
    "queue.Queue": _QUEUE,
    "_queue.SimpleQueue": _QUEUE,
    "multiprocessing.queues.Queue": _QUEUE,
    "subprocess.Popen": _PROCESS,
    "_ctypes._Pointer": _POINTER,
    "_ctypes._SimpleCData": _POINTER,
    "_ctypes.Structure": _POINTER,
    "builtins.PyCapsule": _POINTER,
    "builtins.module": _MODULE,
    "torch.Tensor": _CUDA,
    "_contextvars.ContextVar": _CONTEXT,
    "_contextvars.Context": _CONTEXT,
    "re.Match": _MATCH,
}
_OWN = "Leave it out in __getstate__, make it inside the task, or tell how: kernel.register_serializer."


def _known(value: Any) -> str | None:
    for kind in type(value).__mro__:
        remedy = _REMEDIES.get(f"{kind.__module__}.{kind.__qualname__}")
        if remedy is not None:
            return remedy
    return None


def pickling_hint(value: Any) -> str:
    """Return the sentence for `value`, for an unknown kind what always helps."""
    return _known(value) or _OWN


def stands_for_its_parts(value: Any) -> bool:
    """Say whether users know `value` rather than the lock or socket deep inside it."""
    return _known(value) is not None
