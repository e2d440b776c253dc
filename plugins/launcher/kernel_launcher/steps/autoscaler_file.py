"""The autoscaler's configuration, as a plan says it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kernel_launcher.plan import HEAD, WORKER, ClusterPlan, KindPlan
from kernel_launcher.steps.provider_words import kind_words, provider_words


def autoscaler_values(plan: ClusterPlan) -> dict[str, Any]:
    """Return the configuration of the autoscaler on the head: the provider, the limits, the kinds of workers."""
    return {
        "name": plan.key,
        "provider": plan.provider,
        "provider_options": provider_options(plan, WORKER),
        "settings": {"idle_seconds": plan.idle_seconds, "maximum_nodes": plan.maximum_workers},
        "kinds": {kind.name: limits for kind in worker_kinds(plan) if (limits := _limits(plan, kind))},
    }


def worker_kinds(plan: ClusterPlan) -> list[KindPlan]:
    """Return the kinds of workers: all but the head's, unless it is the only one or says how many workers there are."""
    others = [kind for kind in plan.kinds.values() if kind.name != plan.head_kind]
    own = plan.kinds[plan.head_kind]
    return [*others, own] if own.minimum or own.maximum or not others else others


def provider_options(plan: ClusterPlan, role: str) -> dict[str, Any]:
    """Return what a node provider is made with: its section of the file, and what the launcher adds to it.

    `cluster_name` and `role` tell its machines from others: a provider that is made for the workers never lists the
    head. `kinds` has, by name, the provider's own words for a machine, with `resources` and `labels`; the head's is
    called head. `setup_commands` are run on a worker before it joins.
    """
    kinds = [plan.kinds[plan.head_kind]] if role == HEAD else worker_kinds(plan)
    found: dict[str, Any] = {}
    for kind in kinds:
        said = kind_words(plan.provider, kind.options, kind.labels)
        if kind.resources:
            said["resources"] = dict(kind.resources)
        found[HEAD if role == HEAD else kind.name] = said
    section = provider_words(plan.provider, plan.provider_options)
    options: dict[str, Any] = {**section, "cluster_name": _short(plan.key), "role": role, "kinds": found}
    if role == WORKER:
        options["setup_commands"] = [*plan.commands.outside, *plan.commands.setup, *plan.commands.worker_setup]
    if plan.ssh.user:
        options["user"] = plan.ssh.user
    return options


def _short(key: str) -> str:
    """Return a name that clouds take: letters, digits and -, 40 at most; the digest at its end stays."""
    plain = re.sub(r"[^A-Za-z0-9-]", "-", key)
    return plain if len(plain) <= 40 else f"{plain[:31]}{plain[-9:]}"


def toml_text(values: Mapping[str, Any]) -> str:
    """Return values as TOML: a line for each key at the top. What is None is left out, as TOML has no such value."""
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in values.items() if value is not None)


def _limits(plan: ClusterPlan, kind: KindPlan) -> dict[str, int]:
    """Return the limits of a kind. The least number of workers is that of the one kind, where there is one."""
    only = len(worker_kinds(plan)) == 1
    least = max(kind.minimum, plan.minimum_workers) if only else kind.minimum
    limits = {"minimum": least} if least else {}
    return limits if kind.maximum is None else {**limits, "maximum": kind.maximum}


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{json.dumps(str(key))} = {_inline(each)}" for key, each in value.items() if each is not None
        )
        return f"{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_inline(each) for each in value if each is not None)}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(str(value))
