"""Google's published descriptions of its services, from google-api-python-client: what may be asked and answered."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class SchemaError(Exception):
    """Something is not as the description says."""


class ServiceDescription:
    """The description of one service, such as compute.v1."""

    def __init__(self, name: str) -> None:
        spec = importlib.util.find_spec("googleapiclient")
        assert spec is not None and spec.origin is not None
        file = Path(spec.origin).parent / "discovery_cache" / "documents" / f"{name}.json"
        self._said: dict[str, Any] = json.loads(file.read_text())
        self._methods = [
            (method["httpMethod"], _pattern(self._said["servicePath"], method), method)
            for method in _methods(self._said["resources"])
        ]

    def method(self, verb: str, path: str) -> tuple[dict[str, Any], dict[str, str]] | None:
        """Return the method that a call means, and what the path says; None if there is none."""
        for known, pattern, method in self._methods:
            match = pattern.fullmatch(path) if known == verb else None
            if match:
                return method, {name: unquote(value) for name, value in match.groupdict().items()}
        return None

    def check_call(self, method: Mapping[str, Any], query: Mapping[str, str], body: Any) -> None:
        """Raise SchemaError for a parameter or a body that the method does not take."""
        known = {name for name, said in method["parameters"].items() if said["location"] == "query"}
        if set(query) - known:
            raise SchemaError(f"{method['id']} takes no {sorted(set(query) - known)}")
        if "request" in method:
            self.check(method["request"]["$ref"], body, "the body", writing=True)
        elif body:
            raise SchemaError(f"{method['id']} takes no body")

    def check_answer(self, method: Mapping[str, Any], body: Any) -> None:
        """Raise SchemaError for an answer that the method does not give."""
        self.check(method["response"]["$ref"], body, "the answer")

    def check(self, schema: str, value: Any, where: str, writing: bool = False) -> None:
        """Raise SchemaError for a value that is not as a schema says. `writing`: nothing that only Google says."""
        self._check(self._said["schemas"][schema], value, where, writing)

    def _check(self, said: Mapping[str, Any], value: Any, where: str, writing: bool) -> None:
        if "$ref" in said:
            said = self._said["schemas"][said["$ref"]]
        kind = said.get("type")
        types: dict[Any, Any] = {
            "object": dict, "array": list, "boolean": bool, "integer": int, "number": (int, float), "string": str
        }  # fmt: skip
        if kind in types and (not isinstance(value, types[kind]) or (kind == "integer" and isinstance(value, bool))):
            raise SchemaError(f"{where} is {value!r}, not {kind}")
        if "enum" in said and value not in said["enum"]:
            raise SchemaError(f"{where} is {value!r}, not one of {said['enum']}")
        if "pattern" in said and not re.fullmatch(said["pattern"], value):
            raise SchemaError(f"{where} is {value!r}, not like {said['pattern']}")
        if kind == "array":
            for number, one in enumerate(value):
                self._check(said["items"], one, f"{where}[{number}]", writing)
        if kind == "object":
            for name, one in value.items():
                inner = said.get("properties", {}).get(name) or said.get("additionalProperties")
                if inner is None:
                    raise SchemaError(f"{where} has no {name}")
                if writing and inner.get("readOnly"):
                    raise SchemaError(f"{where}.{name} is said by Google alone")
                self._check(inner, one, f"{where}.{name}", writing)


@cache
def description(name: str) -> ServiceDescription:
    """Return a description, which is read once."""
    return ServiceDescription(name)


def _methods(resources: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in resources.values():
        yield from resource.get("methods", {}).values()
        yield from _methods(resource.get("resources", {}))


def _pattern(base: str, method: Mapping[str, Any]) -> re.Pattern[str]:
    path = method.get("flatPath") or method["path"]
    return re.compile("/" + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", re.escape(base + path)))
