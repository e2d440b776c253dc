"""The package that `import ray` finds when this directory is on the path. It makes room for kernel's."""

import importlib
import sys

MAKES_ROOM_FOR_KERNEL = True  # Distinguishes it from Ray itself, wherever this file was copied to.

import kernel_compat_ray.install  # noqa: E402, F401  (from here on the finder answers for `ray`)

del sys.modules[__name__]
sys.modules[__name__] = importlib.import_module(__name__)
