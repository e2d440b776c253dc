"""Settings that are a part of others: `config.model.fcnet_hiddens`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Generation
from kernel_rllib.config.settings_dict import DictSettings

S = TypeVar("S", bound=DictSettings)


class Part(Field[Any], Generic[S]):
    """A setting whose value is an object of settings. A dict that is given is merged into it, under any names."""

    def __init__(
        self,
        kind: type[S],
        doc: str,
        *,
        default: Mapping[str, Any] | None = None,
        since: Generation = "0.8.5",
        old: str | tuple[str, ...] = (),
    ) -> None:
        """Declare it.

        Args:
            kind: The class of settings.
            doc: Its meaning, in a sentence that ends with a full stop.
            default: The values that differ from the defaults of `kind`.
            since: The first generation whose dicts have it.
            old: Names that it had in all older generations.
        """
        super().__init__(dict(default or {}), doc, since=since, old=old)
        self.nested = kind

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, settings: None, owner: type) -> Part[S]: ...
        @overload
        def __get__(self, settings: object, owner: type) -> S: ...
        def __get__(self, settings: Any, owner: type) -> Any:
            """Return the object in `settings`, or the declaration itself when it is read from the class."""

        def __set__(self, settings: object, value: S | Mapping[str, Any] | None) -> None:
            """Replace the object in `settings`: what isn't given has its default."""

    @property
    def expected(self) -> str:
        """The values that are allowed, in words."""
        assert self.nested is not None
        return f"a dict or a {self.nested.__name__}"
