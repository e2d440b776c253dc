"""Every error that the kernel raises, in one place to import from. The tree is drawn in `kernel_spec.errors`."""

from kernel_spec import errors as _errors

__all__ = [name for name, value in vars(_errors).items() if isinstance(value, type) and issubclass(value, Exception)]
globals().update({name: getattr(_errors, name) for name in __all__})
