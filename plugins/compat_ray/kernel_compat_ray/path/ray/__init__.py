"""What `import ray` finds when this directory is on the path: it makes room for kernel's."""

import importlib
import sys

import kernel_compat_ray.install  # noqa: F401  (from here on the finder answers for `ray`)

del sys.modules[__name__]
sys.modules[__name__] = importlib.import_module(__name__)
