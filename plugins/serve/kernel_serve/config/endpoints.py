"""The endpoints of a configuration file: traffic split by weight, copied to shadows, kept together by a key."""

from __future__ import annotations

from kernel_serve import spellings
from kernel_serve.api.graph import check_prefix
from kernel_serve.config.document import Cursor
from kernel_serve.config.values import EndpointConfig, TargetConfig
from kernel_serve.errors import DeploymentError

_ENDPOINT = ("name", "prefix", "targets", "shadows", "sticky", "methods")
_TARGET = ("application", "deployment", "weight")
_STICKY = ("header:", "cookie:", "query:")


def read_endpoint(cursor: Cursor) -> EndpointConfig:
    """Return an endpoint. Raises DeploymentError at the place of what can't be."""
    given = cursor.fields(_ENDPOINT, spellings.ENDPOINT, {})
    for name in ("name", "prefix", "targets"):
        if name not in given:
            raise cursor.error(f"{name} is missing")
    try:
        prefix = check_prefix(given["prefix"].text())
    except DeploymentError as error:
        raise given["prefix"].error(str(error)) from None
    targets = tuple(_target(each) for each in given["targets"].items())
    if not sum(target.weight for target in targets) > 0:
        raise given["targets"].error("at least one target needs a weight above 0")
    return EndpointConfig(
        name=given["name"].text(),
        prefix=prefix or "/",
        targets=targets,
        methods=frozenset(each.text().upper() for each in given["methods"].items())
        if "methods" in given
        else frozenset(),
        shadows=tuple(_target(each) for each in given["shadows"].items()) if "shadows" in given else (),
        sticky=_sticky(given["sticky"]) if "sticky" in given else "",
    )


def _target(cursor: Cursor) -> TargetConfig:
    given = cursor.fields(_TARGET, {"app": "application", "share": "weight"}, {})
    weight = given["weight"].value if "weight" in given else 1.0
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
        raise given["weight"].error(f"expected is a number from 0 on, not {weight!r}")
    application = given["application"].text() if "application" in given else ""
    deployment = given["deployment"].text() if "deployment" in given else ""
    if "#" in deployment and not application:
        application, _, deployment = deployment.partition("#")
    if not application:
        raise cursor.error("application is missing: whose ingress, or whose `deployment`, takes the requests")
    return TargetConfig(application, deployment, float(weight), cursor.where)


def _sticky(cursor: Cursor) -> str:
    value = cursor.text()
    if value != "client" and not any(value.startswith(kind) and len(value) > len(kind) for kind in _STICKY):
        raise cursor.error(f'expected is "client", "header:NAME", "cookie:NAME" or "query:NAME", not {value!r}')
    return value
