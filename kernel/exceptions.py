"""Every error that the kernel raises, in one place to import from. The tree is drawn in `kernel_spec.errors`."""

from kernel_spec import errors as _errors
from kernel_spec.errors import *  # noqa: F403 - so that type checkers see every name

__all__ = [name for name, value in vars(_errors).items() if isinstance(value, type) and issubclass(value, Exception)]
