"""Every option of tasks, actors and actor methods: where it is allowed, its values, and its conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel.api.label_options import with_labels
from kernel.runtime.definitions import DYNAMIC, STREAMING, UNSAID
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.labels import conditions_of_selector
from kernel_spec.nearest import did_you_mean
from kernel_spec.placement import DEFAULT_STRATEGY, SPREAD_STRATEGY, check_strategy
from kernel_spec.resources import CPU, GPU, MEMORY, OBJECT_STORE_MEMORY, UNIT, Amounts, to_units

TASK = "a task"
ACTOR = "an actor"
METHOD = "an actor method"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the `places` where it is allowed, the `expected` value for messages, and the check.

    `accepts` returns whether a value is accepted, or raises ValueError with a more detailed message.
    """

    places: tuple[str, ...]
    expected: str
    accepts: Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count_or_forever(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= -1


def _positive(value: Any) -> bool:
    return _count(value) and value > 0


def _positive_or_unlimited(value: Any) -> bool:
    return _positive(value) or value == -1


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _quantities(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) and _number(v) for k, v in value.items())


def _errors(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, (list, tuple)) and all(isinstance(e, type) and issubclass(e, BaseException) for e in value)


def _returns(value: Any) -> bool:
    return _count(value) or value in ("dynamic", "streaming")


def _groups(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) and _positive(v) for k, v in value.items())


def _strategy(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "type" in value and bool(check_strategy(value))
    if hasattr(value, "to_mapping"):
        plain = value.to_mapping()
        return isinstance(plain, str) or (isinstance(plain, Mapping) and bool(check_strategy(plain)))
    return value in (DEFAULT_STRATEGY, SPREAD_STRATEGY)


def _selector(value: Any) -> bool:
    return conditions_of_selector(value) is not None


def _fallback(value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    for choice in value:
        if not isinstance(choice, Mapping) or choice.keys() != {"label_selector"}:
            raise ValueError(f'each choice must be {{"label_selector": {{...}}}}, not {choice!r}')
        conditions_of_selector(choice["label_selector"])
    return True


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


_TA = (TASK, ACTOR)
OPTIONS: dict[str, Option] = {
    "num_cpus": Option(_TA, "a number of CPUs, zero or more", _number),
    "num_gpus": Option(_TA, "a number of GPUs, zero or more (0.5 shares one)", _number),
    "resources": Option(_TA, "a mapping of resource name to quantity", _quantities),
    "memory": Option(_TA, "bytes, zero or more", _number),
    "object_store_memory": Option(_TA, "bytes, zero or more", _number),
    "accelerator_type": Option(_TA, "the name of an accelerator model", _text),
    "num_returns": Option((TASK, METHOD), 'a count, "dynamic" or "streaming"', _returns),
    "max_calls": Option((TASK,), "a count (0: no limit)", _count),
    "max_retries": Option((TASK,), "a count, or -1 for ever", _count_or_forever),
    "retry_exceptions": Option((TASK, METHOD), "True, False, or a list of exception types", _errors),
    "max_restarts": Option((ACTOR,), "a count, or -1 for ever", _count_or_forever),
    "max_task_retries": Option((ACTOR, METHOD), "a count, or -1 for ever", _count_or_forever),
    "max_concurrency": Option((ACTOR,), "a count of 1 or more", _positive),
    "concurrency_groups": Option((ACTOR,), "a mapping of group name to a count of 1 or more", _groups),
    "concurrency_group": Option((METHOD,), "the name of a concurrency group", _text),
    "max_pending_calls": Option((ACTOR,), "a count of 1 or more, or -1 for no limit", _positive_or_unlimited),
    "name": Option((TASK, ACTOR, METHOD), "a non-empty string", _text),
    "namespace": Option((ACTOR,), "a non-empty string", _text),
    "get_if_exists": Option((ACTOR,), "True or False", _flag),
    "lifetime": Option((ACTOR,), '"detached", "non_detached" or None', lambda v: v in ("detached", "non_detached")),
    "runtime_env": Option(_TA, "a mapping such as {'env_vars': {...}}", _mapping),
    "scheduling_strategy": Option(
        _TA, '"DEFAULT", "SPREAD", a strategy of kernel.*SchedulingStrategy, or a mapping with a "type"', _strategy
    ),
    "label_selector": Option(_TA, 'a mapping of label to "a", "!a", "in(a, b)" or "!in(a, b)"', _selector),
    "fallback_strategy": Option(_TA, 'a list such as [{"label_selector": {"zone": "b"}}]', _fallback),
    "scheduling_hints": Option(_TA, "a mapping that the scheduler plugin understands", _mapping),
    "stream_ahead": Option((TASK, METHOD), "how many items a stream may be ahead of its consumer (0: any)", _count),
}


def check_options(options: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Check the options for `place` and return those that are not None.

    Raises OptionError for an option that is unknown (with the nearest name), misplaced, or has a bad value, and
    RuntimeEnvError for a bad runtime_env.
    """
    given = {}
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None:
            raise OptionError(f"{place} has no option {name!r}{_near_options(name, place)}")
        if place not in option.places:
            where = " or ".join(option.places)
            raise OptionError(f"{name!r} is an option of {where}, not of {place}")
        if value is None:
            continue
        try:
            accepted = option.accepts(value)
        except ValueError as error:
            raise OptionError(f"{name}: {error}") from None
        if not accepted:
            raise OptionError(f"{name} must be {option.expected}, not {value!r}")
        given[name] = value
    if given.get("runtime_env"):
        from kernel.api.runtime_env import check_types  # only where there is one

        check_types(given["runtime_env"])
    wanted_resources(given, 0)
    if "label_selector" in given or "fallback_strategy" in given:
        strategy_of(given)
    return given


def _near_options(name: str, place: str) -> str:
    names = [known for known, option in OPTIONS.items() if place in option.places]
    return did_you_mean(name, names, f"the options are {', '.join(sorted(names))}")


def wanted_resources(options: Mapping[str, Any], default_cpus: float) -> Amounts:
    """Return the resources that a worker must hold for these options.

    Raises OptionError for a reserved name in `resources`, and for a quantity that can't be represented.
    """
    named: dict[str, float] = {
        CPU: options.get("num_cpus", default_cpus),
        GPU: options.get("num_gpus", 0),
        MEMORY: options.get("memory", 0),
        OBJECT_STORE_MEMORY: options.get("object_store_memory", 0),
    }
    for name, quantity in options.get("resources", {}).items():
        if name in named:
            spelled = {CPU: "num_cpus", GPU: "num_gpus"}.get(name, name)
            raise OptionError(f"resources={{{name!r}: ...}} must be given as {spelled}={quantity}")
        named[name] = quantity
    gpus = named[GPU]
    if gpus > 1 and gpus != int(gpus):
        raise OptionError(f"num_gpus must be a whole number or at most 1 (a share of one device), not {gpus}")
    if "accelerator_type" in options:
        named[f"accelerator_type:{options['accelerator_type']}"] = 1 / UNIT
    try:
        return {name: to_units(quantity) for name, quantity in named.items() if quantity}
    except ValueError as error:
        raise OptionError(str(error)) from error


def count_returns(options: Mapping[str, Any], is_generator: bool) -> int:
    """Return num_returns as the runtime encodes it. By default a generator streams, and others return one value."""
    returns = options.get("num_returns")
    if returns is None:
        return STREAMING if is_generator else 1
    if returns == "dynamic":
        return DYNAMIC
    if returns == "streaming":
        return STREAMING
    return int(returns)


def retry_exceptions(options: Mapping[str, Any]) -> bool | tuple[type[BaseException], ...]:
    """Return the exceptions of user code after which a call is retried: all (True), none (False), or these types."""
    given = options.get("retry_exceptions", False)
    return given if isinstance(given, bool) else tuple(given)


def strategy_of(options: Mapping[str, Any]) -> Any:
    """Return the scheduling strategy as plain values, combined with label selectors; `UNSAID` by default."""
    given = options.get("scheduling_strategy") or UNSAID
    plain = given.to_mapping() if hasattr(given, "to_mapping") else given
    strategy = plain if isinstance(plain, str) else dict(plain)
    selector, others = options.get("label_selector"), options.get("fallback_strategy")
    return with_labels(strategy, selector, others) if selector or others else strategy
