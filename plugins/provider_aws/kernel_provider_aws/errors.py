"""What an error of AWS means to an autoscaler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, QUOTA, THROTTLED, UNKNOWN

THROTTLE_SECONDS, VISIBLE_SECONDS = 5.0, 10.0
"""Seconds until a call may be made again that came too fast, or that needs what was made a moment ago."""

_CODES = {
    **dict.fromkeys(
        (
            "InsufficientAddressCapacity", "InsufficientCapacity", "InsufficientCapacityOnHost",
            "InsufficientFreeAddressesInSubnet", "InsufficientHostCapacity", "InsufficientInstanceCapacity",
            "InsufficientReservedInstanceCapacity", "SpotMaxPriceTooLow", "Unsupported",
        ),
        CAPACITY,
    ),
    **dict.fromkeys(
        (
            "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "VolumeLimitExceeded",
            "MaxIOPSLimitExceeded", "PendingVerification", "AddressLimitExceeded", "NetworkInterfaceLimitExceeded",
            "LimitExceeded", "SecurityGroupLimitExceeded", "ParameterLimitExceeded",
        ),
        QUOTA,
    ),
    **dict.fromkeys(
        (
            "AccessDenied", "AccessDeniedException", "AuthFailure", "Blocked", "ExpiredToken", "ExpiredTokenException",
            "IncompleteSignature", "InvalidClientTokenId", "MissingAuthenticationToken", "NotAuthorized",
            "OptInRequired", "RequestExpired", "SignatureDoesNotMatch", "UnauthorizedOperation",
            "UnrecognizedClientException",
        ),
        CREDENTIALS,
    ),
    **dict.fromkeys(
        (
            "EC2ThrottledException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
            "SlowDown",
            "Throttling", "ThrottlingException", "TooManyRequestsException", "TooManyUpdates",
        ),
        THROTTLED,
    ),
}  # fmt: skip
_WRONG = ("Invalid", "Malformed", "Missing", "Unknown", "Unsupported", "Incorrect", "Validation", "NoSuch")
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
)
_NOT_SENT = (exceptions.ParamValidationError, exceptions.NoRegionError, exceptions.ProfileNotFound)


def code_of(error: exceptions.ClientError) -> str:
    """Return AWS's word for an error, such as InsufficientInstanceCapacity."""
    return str(error.response.get("Error", {}).get("Code", ""))


def translated(error: exceptions.BotoCoreError | exceptions.ClientError, what: str) -> NodeProviderError:
    """Return what a caller is told: `what` could not be done, why, and what helps."""
    text = f"AWS: can't {what}: {error}"
    if isinstance(error, _NO_CREDENTIALS):
        return NodeProviderError(
            f"{text}; give the head an instance profile, or write ~/.aws/credentials (`aws configure`)",
            code=CREDENTIALS,
        )
    if isinstance(error, _NOT_SENT):
        return NodeProviderError(text, code=INVALID)
    if not isinstance(error, exceptions.ClientError):
        return NodeProviderError(text, code=UNKNOWN)
    said = code_of(error)
    if said.startswith("InvalidParameterValue") and "iaminstanceprofile" in str(error).lower().replace(" ", ""):
        return NodeProviderError(
            f"{text} (a new instance profile is seen by EC2 after some seconds)",
            code=THROTTLED,
            retry_after=VISIBLE_SECONDS,
        )
    code = _CODES.get(said) or (INVALID if said.startswith(_WRONG) else UNKNOWN)
    return NodeProviderError(text, code=code, retry_after=_pause(error) if code == THROTTLED else None)


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Let errors of AWS leave the block as NodeProviderError, which says that `what` could not be done."""
    try:
        yield
    except (exceptions.BotoCoreError, exceptions.ClientError) as error:
        raise translated(error, what) from error


def _pause(error: exceptions.ClientError) -> float:
    said = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("retry-after", "")
    return float(said) if said.isdigit() else THROTTLE_SECONDS
