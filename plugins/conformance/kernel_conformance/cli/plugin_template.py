"""Writes a ready plugin distribution: `kernel plugins new KIND NAME`.

Back ends start from the kernel's own reference implementation of the contract, under a new name; the other kinds
from a small example in `templates/`. Either way the generated test passes before anything is changed.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import re
import string
from collections.abc import Mapping
from dataclasses import field
from importlib import resources
from pathlib import Path
from typing import Any

from kernel.plugins import KINDS
from kernel_conformance.cli.plugin_check import FLAGS, suite_of
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.hooks import ENGINE_GROUP, LIBRARY_GROUP, NETWORK_GROUP, PLUGIN_GROUP
from kernel_spec.version import CONTRACTS, __version__

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class PluginTemplate:
    """How a kind is written.

    `prefix` begins the names of folder and package, `module` holds the implementation, whose name ends in `suffix`.
    `reference` is the module and the class to start from; without one, `templates/<kind>.py.template` is taken.
    `flags` are what the conformance suite has to know about the reference. `more` names further modules, each of
    `templates/<kind>_<module>.py.template`.
    """

    prefix: str
    module: str
    suffix: str
    description: str
    reference: tuple[str, str] | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    usage: str = ""
    more: tuple[str, ...] = ()


TEMPLATES: Mapping[str, PluginTemplate] = {
    "scheduler": PluginTemplate(
        "scheduler",
        "scheduler",
        "Scheduler",
        "A scheduler for kernel",
        reference=("kernel.defaults.scheduler", "LocalScheduler"),
        flags={"most_times_slower": 10_000},
    ),
    "serializer": PluginTemplate("serializer", "serializer", "Serializer", "A serializer for kernel"),
    "object_store": PluginTemplate(
        "store",
        "store",
        "ObjectStore",
        "An object store for kernel",
        reference=("kernel.defaults.object_store", "LocalObjectStore"),
        flags={"spills": False},
    ),
    "metadata_store": PluginTemplate(
        "metadata",
        "store",
        "MetadataStore",
        "A metadata store for kernel",
        reference=("kernel.defaults.metadata", "LocalMetadataStore"),
    ),
    "spill_target": PluginTemplate(
        "spill",
        "target",
        "SpillTarget",
        "A spill target for kernel",
        reference=("kernel.defaults.spill", "DiskSpill"),
    ),
    "memory_guard": PluginTemplate(
        "memory_guard",
        "guard",
        "MemoryGuard",
        "A memory guard for kernel",
        reference=("kernel.defaults.memory_guard", "LocalMemoryGuard"),
    ),
    "environment": PluginTemplate(
        "environment",
        "builder",
        "Environment",
        "A field of the runtime_env of kernel",
        flags={"values": ({"a.txt": "x"}, {}), "wrong_values": (5, {"a/b": "x"})},
    ),
    "accelerator": PluginTemplate("accelerator", "accelerator", "Accelerator", "A kind of accelerator for kernel"),
    "node_provider": PluginTemplate(
        "provider",
        "provider",
        "NodeProvider",
        "A node provider for kernel",
        reference=("kernel.defaults.provider", "ManualNodeProvider"),
        flags={"configuration": {"kinds": {"small": {"CPU": 1}}}, "running_seconds": None},
    ),
    "observer": PluginTemplate("observer", "observer", "Observer", "An observer for kernel"),
    "metrics_sink": PluginTemplate("metrics", "sink", "MetricsSink", "A sink for the metrics of kernel"),
    "cli_command": PluginTemplate("command", "command", "", "A command for kernel", usage="kernel {name} --help"),
    "library": PluginTemplate("", "core", "", "A library on top of kernel"),
    "head_service": PluginTemplate("service", "service", "Service", "A service on the head of kernel"),
    "engine": PluginTemplate(
        "engine", "engine", "Runtime", "An engine for kernel", usage="KERNEL_ENGINE={word} python my_program.py"
    ),
    "network": PluginTemplate(
        "network",
        "network",
        "Network",
        "A network for kernel",
        usage="KERNEL_NETWORK={word} kernel start --head",
        more=("links",),
    ),
}
"""Kind to template, in the order they are listed."""

GROUPS: Mapping[str, str] = {"library": LIBRARY_GROUP, "engine": ENGINE_GROUP, "network": NETWORK_GROUP}
"""The groups of the entry points of kinds that are found without a hook."""


_IMPORTS = {
    "serializer": ("\nfrom fractions import Fraction\n", ""),
    "observer": ("", "from kernel_spec.observers import DEAD, FINISHED, TASK, WORKER, LifecycleEvent\n"),
    "metrics_sink": ("\nfrom pathlib import Path\n", "from kernel_spec.metrics import COUNTER, FamilySnapshot\n"),
    "environment": ("\nfrom pathlib import Path\n", "from kernel_spec.environments import BuildPlace\n"),
}
"""Kind to what its own tests import, of the standard library and of kernel_spec."""


def files(kind: str, name: str) -> dict[str, str]:
    """Return the files of a new plugin: path below its folder to text.

    Raises OptionError when the name can't be made into the name of a package.
    """
    template = TEMPLATES[kind]
    values = _values(kind, name, template)
    package = f"{values['package']}"
    written = {
        "pyproject.toml": _filled("pyproject.toml", values),
        "README.md": _filled("README.md", values),
        "CHANGELOG.md": _filled("CHANGELOG.md", values),
        f"{package}/__init__.py": _filled("__init__.py", values),
        f"{package}/{template.module}.py": _implementation(kind, template, values),
        f"tests/test_{package}.py": _tests(kind, values),
    }
    for module in template.more:
        written[f"{package}/{module}.py"] = _filled(f"{kind}_{module}.py", values)
    if kind not in GROUPS:
        written[f"{package}/plugin.py"] = _filled(f"plugin_{KINDS[kind].pattern}.py", values)
    return written


def default_folder(kind: str, name: str) -> str:
    """Return the folder that a new plugin is written to when none is given: its distribution's name."""
    return _values(kind, name, TEMPLATES[kind])["distribution"]


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a new plugin to `folder` and return the paths. Raises OptionError when something is there already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder} is there already and not empty: choose another folder with --path")
    paths = []
    for name_below, text in files(kind, name).items():
        path = folder / name_below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _values(kind: str, name: str, template: PluginTemplate) -> dict[str, str]:
    """Return what the placeholders of the templates stand for."""
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} can't name a plugin: use small letters and digits in words joined by - or _, such as my_plugin"
        )
    word = name.replace("-", "_")
    if kind in ("library", "cli_command") and keyword.iskeyword(word):
        raise OptionError(f"{name!r} can't name a {kind.replace('_', ' ')}: it is a word of the Python language")
    plugin = "_".join(filter(None, (template.prefix, word)))
    camel = "".join(part.capitalize() for part in word.split("_"))
    class_name = camel + template.suffix if template.suffix else word
    package = f"kernel_{plugin}"
    values = {
        "kind": kind,
        "title": kind.replace("_", " "),
        "name": name if kind == "cli_command" else word,
        "NAME": word.upper(),
        "camel": camel,
        "distribution": f"kernel-{plugin.replace('_', '-')}",
        "package": package,
        "module": template.module,
        "class_name": class_name,
        "description": template.description,
        "version": str(CONTRACTS.get(kind, "")),
        "group": GROUPS.get(kind, PLUGIN_GROUP),
        "entry_name": word if kind in GROUPS else plugin,
        "entry_target": {
            "library": package,
            "engine": f"{package}.engine:open_session",
            "network": f"{package}.network:network",
        }.get(kind, f"{package}.plugin"),
        "dependencies": _dependencies(kind),
        "usage": _usage(kind, name, template),
        "plugin_sentence": "" if kind in GROUPS else f", `{package}/plugin.py` offers it to the kernel",
        "hook": KINDS[kind].hook if kind in KINDS else "",
        "conformance": "",
    }
    if template.flags:
        text = repr({kind: dict(template.flags)}).replace("'", '"')
        values["conformance"] = f'\n{FLAGS} = {text}\n"""What the conformance suite has to know (so far)."""\n'
    values["offer"] = _offer(kind, values)
    values["factory"] = class_name if kind == "cli_command" or not _is_hook(kind) else f"{class_name}()"
    configuration = repr(template.flags.get("configuration")).replace("'", '"')
    values["test_factory"] = f"lambda: {class_name}({configuration})" if kind == "node_provider" else class_name
    return values


def _offer(kind: str, values: Mapping[str, str]) -> str:
    """Return the README's lines about the entry point, and the hooks that its module fills."""
    point = f"By the entry point `{values['entry_name']}` in the group `{values['group']}`, which names"
    offered = f"the {values['title']} `{values['name']}`"
    if kind in GROUPS:
        return f"{point}\n`{values['entry_target']}`: {offered}. No hook is needed.\n"
    rows = {
        "kernel_contracts": f"the version of the contract `{kind}` that it was written for",
        values["hook"]: offered,
    }
    table = "".join(f"| `{hook}` | {what} |\n" for hook, what in rows.items())
    return f"{point}\n`{values['entry_target']}`, these hooks:\n\n| hook | it offers |\n|---|---|\n{table}"


def _is_hook(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].pattern == "hook"


def _dependencies(kind: str) -> str:
    wanted = [f"kernel-spec>={__version__}"]
    if kind == "library":
        wanted = [f"kernel>={__version__}"]
    elif kind == "engine":
        wanted = [f"{name}>={__version__}" for name in ("kernel", "kernel-engine", "kernel-spec")]
    elif kind == "network":
        wanted = [f"{name}>={__version__}" for name in ("kernel-processes", "kernel-spec")]
    elif kind == "cli_command":
        wanted.insert(0, "click>=8.1")
    return ", ".join(f'"{requirement}"' for requirement in wanted)


def _usage(kind: str, name: str, template: PluginTemplate) -> str:
    """Return the README's lines about how the plugin comes into use, indented as code."""
    if template.usage:
        lines = [template.usage.format(name=name, word=name.replace("-", "_"))]
    elif kind == "library":
        word = name.replace("-", "_")
        lines = [f'python -c "from kernel import {word}; print({word}.{word}())"']
    elif kind in KINDS and KINDS[kind].environment:
        lines = [f"{KINDS[kind].environment}={name.replace('-', '_')} python my_program.py"]
    else:
        lines = ["kernel plugins list          # it is used as soon as it is installed"]
    if kind == "engine":
        lines.insert(0, f"kernel plugins check --engine {name.replace('-', '_')}")
    elif kind not in ("library", "network"):
        prefixed = "_".join(filter(None, (template.prefix, name.replace("-", "_"))))
        lines.insert(0, f"kernel plugins check {prefixed}")
    return "\n".join(f"    {line}" for line in lines) + "\n"


def _implementation(kind: str, template: PluginTemplate, values: Mapping[str, str]) -> str:
    if template.reference is None:
        return _filled(f"{kind}.py", values)
    module, reference = template.reference
    text = inspect.getsource(importlib.import_module(module))
    text = re.sub(rf"\b{reference}\b", values["class_name"], text)
    text = re.sub(r"\bLocal(?=[A-Z])", values["camel"], text)
    old = re.search(r'^    name = "(.*)"$', text, flags=re.MULTILINE)
    return text if old is None else re.sub(rf"""(["']){old[1]}\1""", rf"\g<1>{values['name']}\1", text)


def _tests(kind: str, values: Mapping[str, str]) -> str:
    suite = suite_of(kind)
    if suite is None or kind in ("engine", "network"):
        return _filled(f"test_{kind}.py", values)
    flags = "".join(
        f"    {flag} = {value!r}\n".replace("'", '"')
        for flag, value in TEMPLATES[kind].flags.items()
        if flag != "configuration"
    )
    if _is_hook(kind):
        offer = f"[type(thing) for thing in offered] == [{values['class_name']}]"
    else:
        offer = f'offered == {{"{values["name"]}": {values["class_name"]}}}'
    stdlib, spec = _IMPORTS.get(kind, ("", ""))
    imports = {"stdlib_imports": stdlib, "spec_imports": spec}
    text = _filled(
        "test_suite.py",
        {**values, **imports, "suite": suite[0], "maker": suite[1], "flags": flags, "offer_check": offer},
    )
    return text + _filled(f"test_{kind}.py", values, optional=True)


def _filled(name: str, values: Mapping[str, str], optional: bool = False) -> str:
    """Return the template `name` with its placeholders replaced."""
    source = resources.files("kernel_conformance.cli") / "templates" / f"{name}.template"
    if optional and not source.is_file():
        return ""
    return string.Template(source.read_text(encoding="utf-8")).substitute(values)
