"""The kernel's errors in gRPC: each has a status code, and arrives as the class that it was."""

from __future__ import annotations

import grpc
import pytest
from kernel_control_grpc.errors import (
    CODES,
    NotAllowedError,
    NotKnownError,
    NotServedError,
    bases_of,
    code_of,
    error_named,
)

from kernel_spec import errors
from kernel_spec.errors import KernelError

ALL = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, KernelError)]
OURS = [NotAllowedError, NotKnownError, NotServedError]


@pytest.mark.parametrize("kind", [*ALL, *OURS], ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_and_comes_back(kind: type[KernelError]) -> None:
    error = kind("what happened")
    assert hasattr(grpc.StatusCode, code_of(error))
    again = error_named(kind.__name__, bases_of(error), str(error))
    assert type(again) is kind and str(again) == "what happened"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.OptionError("x"), "INVALID_ARGUMENT"),
        (errors.ActorNotFoundError("x"), "NOT_FOUND"),
        (errors.NameTakenError("x"), "ALREADY_EXISTS"),
        (errors.AlreadyInitializedError("x"), "FAILED_PRECONDITION"),
        (errors.OwnerDiedError("x"), "DATA_LOSS"),
        (errors.OutOfMemoryError("x"), "RESOURCE_EXHAUSTED"),
        (errors.SessionEndedError("x"), "UNAVAILABLE"),
        (errors.HeadReplacedError("x"), "UNAVAILABLE"),
        (errors.InternalError("x"), "INTERNAL"),
        (ZeroDivisionError("x"), "INTERNAL"),
    ],
)
def test_codes(error: BaseException, code: str) -> None:
    assert code_of(error) == code


def test_an_error_of_a_newer_head_is_the_nearest_that_is_known() -> None:
    error = error_named("SomethingNewError", ["OptionError", "UsageError", "KernelError"], "text")
    assert type(error) is errors.OptionError
    assert type(error_named("SomethingNewError", ["AlsoNewError"], "text")) is KernelError
    assert type(error_named("CODES", ["KernelError"], "text")) is KernelError


def test_the_documented_codes_are_these() -> None:
    from pathlib import Path

    page = Path(__file__).resolve().parents[3] / "spec" / "proto" / "README.md"
    rows = [line.split("|") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    documented = {
        (name.strip(" `"), row[1].strip(" `")) for row in rows for name in row[2].split(",") if name.strip(" `")
    }
    assert documented == {(kind.__name__, code) for kind, code in CODES.items()}
