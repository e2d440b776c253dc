"""Options and arguments of all generations in kernel's words."""

from __future__ import annotations

import json
import warnings

import pytest
from kernel_compat_ray.environment import OUR_RAY, adopt_environment
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.options import translate
from kernel_compat_ray.session import JobConfig, init_options
from kernel_compat_ray.strategies import In, NodeLabelSchedulingStrategy, NotIn

import kernel
from kernel.exceptions import OptionError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"num_return_vals": 3}, {"num_returns": 3}),
        ({"max_reconstructions": 2}, {"max_restarts": 2}),
        ({"detached": True, "name": "x"}, {"lifetime": "detached", "name": "x"}),
        ({"detached": False}, {}),
        ({"_generator_backpressure_num_objects": 2}, {"stream_ahead": 2}),
        ({"_generator_backpressure_num_objects": -1}, {"stream_ahead": 0}),
        ({"enable_task_events": False, "num_cpus": 1}, {"num_cpus": 1}),
        ({"placement_group": None, "placement_group_bundle_index": -1}, {}),
        ({"checkpoint_interval": 0}, {}),
        ({"override_environment_variables": {"A": "1"}}, {"runtime_env": {"env_vars": {"A": "1"}}}),
        ({"runtime_env": {"env_vars": {"B": "2"}, "pip": None}}, {"runtime_env": {"env_vars": {"B": "2"}}}),
    ],
)
def test_options_become_those_of_kernel(given, wanted):
    assert translate(given) == wanted


@pytest.mark.parametrize("packages", ["pip", "uv"])
def test_conda_with_another_installer_is_refused(packages):
    environment = {"conda": {"dependencies": ["a"]}, packages: ["b"]}
    with pytest.raises(ValueError, match=f"The '{packages}' field and 'conda' field of runtime_env cannot be"):
        translate({"runtime_env": environment})
    assert translate({"runtime_env": {**environment, packages: []}}) == {
        "runtime_env": {"conda": {"dependencies": ["a"]}}
    }


def test_an_old_option_warns_at_the_program():
    with pytest.warns(DeprecationWarning, match="num_return_vals is an old name; use num_returns") as caught:
        translate({"num_return_vals": 2})
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", ["checkpoint_interval", "tensor_transport", "num_custom_resource"])
def test_an_option_that_can_not_be_honoured_says_what_to_use(name):
    with pytest.raises(NotSupportedError, match=f"the option {name} is not supported: "):
        translate({name: 5})


def test_labels_have_the_names_of_kernel():
    given = {"label_selector": {"ray.io/node-id": "!a"}, "fallback_strategy": [{"label_selector": {"disk": "ssd"}}]}
    assert translate(given) == {**given, "label_selector": {"kernel/node-id": "!a"}}
    assert init_options(None, {"labels": {"ray.io/accelerator-type": "A100"}}, {}) == {
        "labels": {"kernel/accelerator-type": "A100"}
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda: NodeLabelSchedulingStrategy(hard={"zone": "a"}),
        lambda: NodeLabelSchedulingStrategy("zone"),
        lambda: NodeLabelSchedulingStrategy({"zone": In()}),
        lambda: NodeLabelSchedulingStrategy({"zone": NotIn(1)}),
    ],
)
def test_conditions_that_are_none_are_refused(make):
    with pytest.raises(OptionError, match=r"In\("):
        make()


@pytest.mark.parametrize(
    ("address", "arguments", "environment", "wanted"),
    [
        (None, {}, {}, {}),
        ("auto", {}, {}, {"address": "auto"}),
        (None, {"redis_address": "a:1"}, {}, {"address": "a:1"}),
        ("local", {"num_cpus": 1}, {"RAY_ADDRESS": "a:1"}, {"num_cpus": 1}),
        (None, {"local_mode": True}, {"RAY_ADDRESS": "a:1"}, {"local_mode": True}),
        (None, {"_temp_dir": "/x", "_memory": 5}, {}, {"temp_dir": "/x", "memory": 5}),
        (None, {"job_config": JobConfig(ray_namespace="n")}, {}, {"namespace": "n"}),
        (None, {}, {"RAY_NAMESPACE": "n", "RAY_LOG_TO_DRIVER": "0"}, {"namespace": "n", "log_to_driver": False}),
        (None, {"dashboard_host": "0.0.0.0", "include_dashboard": True, "dashboard_port": 8265}, {}, {}),
    ],
)
def test_arguments_of_init_become_those_of_kernel(address, arguments, environment, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert init_options(address, arguments, environment) == wanted


def test_an_argument_without_effect_says_why():
    with pytest.warns(
        UserWarning, match="huge_pages=...\\) has no effect on kernel: the object store uses ordinary pages"
    ):
        assert init_options(None, {"huge_pages": True}, {}) == {}


def test_an_argument_that_can_not_be_honoured_says_what_to_use():
    with pytest.raises(NotSupportedError, match="num_custom_resource=...\\) is not supported: name it"):
        init_options(None, {"num_custom_resource": 3}, {})
    with pytest.raises(OptionError, match="no argument 'nonsense'"):
        init_options(None, {"nonsense": 3}, {})


def test_a_cluster_elsewhere_is_sent_what_its_workers_need_to_import_ray():
    given = init_options(None, {"runtime_env": {"env_vars": {"A": "1"}}}, {"RAY_ADDRESS": "ray://a:1?namespace=n"})
    (module,) = given["runtime_env"].pop("py_modules")
    assert given == {"address": "kernel://a:1", "namespace": "n", "runtime_env": {"env_vars": {"A": "1"}}}
    assert module.endswith("path/ray")


@pytest.mark.parametrize(("address", "is_sent"), [("ray://a:1", True), ("a:1", False), ("auto", False)])
def test_a_cluster_elsewhere_is_sent_it_also_for_a_program_that_never_calls_init(address: str, is_sent: bool) -> None:
    environment = {"RAY_ADDRESS": address}
    adopt_environment(environment)
    assert ("KERNEL_RUNTIME_ENV" in environment) == is_sent
    if is_sent:
        assert json.loads(environment["KERNEL_RUNTIME_ENV"]) == {"py_modules": [OUR_RAY]}
        given = {"RAY_ADDRESS": address, "KERNEL_RUNTIME_ENV": "{}"}
        adopt_environment(given)
        assert given["KERNEL_RUNTIME_ENV"] == "{}", "what the user says counts"


@pytest.mark.parametrize("wrong", [3, "pip", ["pip"], 0])
def test_what_is_no_environment_is_refused_by_its_name(wrong: object) -> None:
    with pytest.raises(OptionError, match=r"^runtime_env must be a mapping such as .*, not "):
        kernel.remote(**translate({"runtime_env": wrong}))(lambda: None)
    with pytest.raises(OptionError, match=r"runtime_env must be a dict, not a "):
        kernel.init(**init_options(None, {"runtime_env": wrong}, {}))
