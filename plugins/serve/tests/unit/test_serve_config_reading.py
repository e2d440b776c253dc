"""Reading configuration files: what they say, and what is wrong with them, by line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from kernel_serve.config.reading import read, read_file
from kernel_serve.config.values import TargetConfig, changes
from kernel_serve.errors import DeploymentError

WHOLE = """
proxy_location: headonly
http_options:
  host: 0.0.0.0
  port: 8080
  keep_alive_timeout_s: 30
grpc_options:
  port: 9001
  grpc_servicer_functions: [shop_pb2_grpc.add_ShopServicer_to_server]
logging_config: {log_level: DEBUG}
applications:
  - name: shop
    route_prefix: /shop/
    import_path: shop.main:app
    args: {model: large}
    runtime_env:
      env_vars: {MODE: fast}
    deployments:
      - name: Model
        max_ongoing_requests: 7
        actor_options: {num_cpus: 0.5}
        user_config: {threshold: 0.3}
        autoscaling_config:
          min_replicas: 2
          max_replicas: 9
          target_ongoing_requests: 3
          upscaling_factor: 0.5
          downscaling_factor: 0.5
          look_back_period_s: null
          policy: shop.policies:mine
          policy_arguments: {busy: 3}
      - name: Front
        num_replicas: 3
  - name: inner
    route_prefix: null
    import_path: shop.inner.app
endpoints:
  - name: split
    prefix: /v2
    targets:
      - {app: shop, share: 0.9}
      - {deployment: inner#Model, weight: 0.1}
    shadows: [{application: inner, weight: 0.5}]
    sticky: header:x-user
    methods: [get, POST]
"""


def test_all_of_a_file_is_read() -> None:
    config = read(WHOLE, "serve.yaml")
    assert config.proxy_location == "HeadOnly"
    assert config.http_options is not None and config.grpc_options is not None
    assert (config.http_options.host, config.http_options.port) == ("0.0.0.0", 8080)
    assert config.http_options.keep_alive_timeout_s == 30
    assert config.grpc_options.grpc_servicer_functions == ("shop_pb2_grpc.add_ShopServicer_to_server",)
    shop, inner = config.applications
    assert (shop.name, shop.route_prefix, shop.import_path) == ("shop", "/shop", "shop.main:app")
    assert (shop.args, shop.runtime_env) == ({"model": "large"}, {"env_vars": {"MODE": "fast"}})
    assert inner.route_prefix is None
    model, front = shop.deployments
    assert model.options == {
        "max_ongoing_requests": 7,
        "actor_options": {"num_cpus": 0.5},
        "user_config": {"threshold": 0.3},
        "autoscaling_config": {
            "min_replicas": 2,
            "max_replicas": 9,
            "target_ongoing_requests": 3,
            "upscaling_factor": 0.5,
            "downscaling_factor": 0.5,
            "policy": "shop.policies:mine",
            "policy_arguments": {"busy": 3},
        },
    }
    assert front.options == {"num_replicas": 3}
    (split,) = config.endpoints
    assert [(each.application, each.deployment, each.weight) for each in split.targets] == [
        ("shop", "", 0.9),
        ("inner", "Model", 0.1),
    ]
    assert isinstance(split.shadows[0], TargetConfig) and split.shadows[0].weight == 0.5
    assert (split.prefix, split.sticky, split.methods) == ("/v2", "header:x-user", {"GET", "POST"})


def test_what_was_read_reads_the_same_again() -> None:
    import yaml

    once = read(WHOLE)
    again = read(yaml.safe_dump(once.data))
    assert again.data == once.data and changes(once.data, again.data) == []


def test_an_application_has_defaults() -> None:
    (application,) = read("applications: [{import_path: 'm:app'}]").applications
    assert (application.name, application.route_prefix) == ("default", "/")
    assert read("applications: []").applications == read("{}").applications == ()


@pytest.mark.parametrize("text", ["", "# to be written\n", "\n\n"])
def test_a_file_with_nothing_in_it_is_a_mistake(text: str) -> None:
    with pytest.raises(
        DeploymentError, match=r"serve.yaml: there is nothing in it; say `applications: \[\]` if nothing"
    ):
        read(text, "serve.yaml")


def app(rest: str) -> str:
    """Return a file with one application, and something in it."""
    return f"applications:\n  - import_path: m:app\n    {rest}\n"


def deployment(rest: str) -> str:
    """Return a file with one deployment, and something in it: on line 5."""
    return f"applications:\n  - import_path: m:app\n    deployments:\n      - name: D\n        {rest}\n"


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in pairwise("abcdefg")
)
"""Six references to ten references each: a million values."""

AT = "serve.yaml:5: applications[0].deployments[0]."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (deployment("num_replica: 3"), AT + "num_replica: there is no such setting; did you mean 'num_replicas'?"),
        (deployment("zzz: 3"), AT + "zzz: there is no such setting; there are: actor_options, autoscaling"),
        (deployment("num_replicas: -3"), AT + 'num_replicas: num_replicas is a number from 0 on, or "auto", not -3'),
        (deployment("max_ongoing_requests: many"), AT + "max_ongoing_requests: max_ongoing_requests is a whole number"),
        (deployment("init_args: []"), AT + "init_args: arguments are given in the code, by bind(), or by `args`"),
        (
            deployment("autoscaling_config: {min_replicas: 3, max_replicas: 2}"),
            AT + "autoscaling_config: max_replicas (2) must be at least min_replicas (3)",
        ),
        (
            deployment("autoscaling_config:\n          max_replicas: 5\n          look_back_period_s: 0"),
            "serve.yaml:7: applications[0].deployments[0].autoscaling_config.look_back_period_s: look_back_period_s is",
        ),
        (
            deployment("autoscaling_config: {max_replicas: 2, maximum: 2}"),
            AT + "autoscaling_config.maximum: there is no such setting; ",
        ),
        (
            "endpoints: [{name: e, prefix: /e, targets: [{app: a, application: b}]}]",
            "endpoints[0].targets[0].application: this is another name of endpoints[0].targets[0].app, which is there",
        ),
        (
            deployment("num_replicas: 2\n        autoscaling_config: {max_replicas: 2}"),
            "serve.yaml:4: applications[0].deployments[0]: deployment D: num_replicas and autoscaling_config",
        ),
        (app("deployments: [{num_replicas: 2}]"), "name is missing: which deployment of the code is meant"),
        (app("deployments: [{name: A}, {name: A}]"), "there is another deployment 'A' above"),
        (app("deployments: {name: A}"), "serve.yaml:3: applications[0].deployments: expected a list, not a mapping"),
        (app("route_prefix: shop"), "serve.yaml:3: applications[0].route_prefix: a route_prefix is a path"),
        (app("port: 8000"), "serve.yaml:3: applications[0].port: it belongs below http_options, at the top"),
        (app("args: [1]"), "serve.yaml:3: applications[0].args: expected a mapping of names to values, not a list"),
        ("applications: [{name: a}]", 'serve.yaml:1: applications[0]: import_path is missing: where the application'),
        ("applications: [{import_path: nonsense}]", 'import_path: expected "module:name", not \'nonsense\''),
        ("applications: [{import_path: 3}]", "applications[0].import_path: expected a text, not 3"),
        (
            "applications:\n- import_path: a:b\n- import_path: c:d\n",
            "serve.yaml:3: applications[1]: there is another application 'default' above; each needs a name of its own",
        ),
        (
            "applications:\n- import_path: a:b\n- import_path: c:d\n  name: two\n",
            "serve.yaml:3: applications[1]: the route '/' belongs to application 'default' already",
        ),
        ("import_path: a:b", "serve.yaml:1: import_path: it belongs to an application: begin with `applications:`"),
        ("http_options:\n  port: 99999", "serve.yaml:2: http_options.port: port is a number from 0 (any free one)"),
        ("http_options:\n  port: web", "serve.yaml:2: http_options.port: port is a number from 0 (any free one)"),
        ("http_options: {location: EveryNode}", "http_options.location: it is called proxy_location"),
        ("proxy_location: somewhere", "proxy_location: expected one of EveryNode, HeadOnly, Disabled, not 'some"),
        ("applications: 3", "serve.yaml:1: applications: expected a list, not 3"),
        ("- 1", "serve.yaml:1: expected a mapping of names to values, not a list"),
        ("a: [", "serve.yaml:1: this is not YAML: expected the node content"),
        ("a: !!python/name:os.system x", "this is not YAML: could not determine a constructor"),
        ("a: &a [*a]", "serve.yaml: values are too deep in each other"),
        (BOMB, "serve.yaml: there are more than 100,000 values in it"),
        ("applications: []\napplications: []", "serve.yaml:2: applications is there twice"),
        ("endpoints: [{name: e}]", "endpoints[0]: prefix is missing"),
        ("endpoints: [{name: e, prefix: /e, targets: [{weight: 1}]}]", "targets[0]: application is missing"),
        (
            "endpoints: [{name: e, prefix: /e, targets: [{app: a, weight: -1}]}]",
            "endpoints[0].targets[0].weight: expected a number from 0 on, not -1",
        ),
        (
            "endpoints: [{name: e, prefix: /e, targets: [{app: a, weight: 0}]}]",
            "endpoints[0].targets: at least one target needs a weight above 0",
        ),
        (
            "endpoints: [{name: e, prefix: /e, targets: [{app: a}], sticky: user}]",
            'endpoints[0].sticky: expected "client", "header:NAME"',
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        read(text, "serve.yaml")
    assert message in str(caught.value)


def test_anchors_and_merges_work() -> None:
    config = read(
        "applications:\n- import_path: m:app\n  deployments:\n"
        "  - &one {name: A, num_replicas: 2}\n  - {<<: *one, name: B}\n"
    )
    assert [dict(each.options) for each in config.applications[0].deployments] == [{"num_replicas": 2}] * 2


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("\n\nport: 3\n")
    with pytest.raises(DeploymentError, match=rf"^{path}:3: port: it belongs below http_options"):
        read_file(path)


def test_changes_are_told_by_name() -> None:
    before = read(WHOLE).data
    text = WHOLE.replace("max_replicas: 9", "max_replicas: 12").replace("threshold: 0.3", "limit: 0.3")
    text = text.replace("  - name: inner\n    route_prefix: null\n    import_path: shop.inner.app\n", "")
    text = text.replace("      - {deployment: inner#Model, weight: 0.1}\n", "").replace("port: 8080", "port: 8000")
    assert [str(change) for change in changes(before, read(text).data)] == [
        "- http_options.port",
        "- applications[shop].deployments[Model].user_config.threshold",
        "+ applications[shop].deployments[Model].user_config.limit: 0.3",
        "~ applications[shop].deployments[Model].autoscaling_config.max_replicas: 9 -> 12",
        "- applications[inner]",
        "~ endpoints[split].targets: [{'application': 'shop', 'weight': 0.9}, {'application': 'inner', "
        "'deployment': 'Model', 'weight': 0.1}] -> [{'application': 'shop', 'weight': 0.9}]",
    ]
