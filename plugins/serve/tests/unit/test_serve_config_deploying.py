"""From import paths to specifications: builders and their arguments, overrides, endpoints, code that changes."""

from __future__ import annotations

import pickle
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kernel_serve.config.deploying import ConfigStep, build_application, steps
from kernel_serve.config.reading import read
from kernel_serve.config.writing import Written, write
from kernel_serve.errors import DeployFailedError, DeploymentError
from kernel_serve.settings import GRPCOptions
from kernel_serve.users_code import _loaded, forget_modules, import_application, modules_below, services_version
from kernel_serve.values import ApplicationSpec, Target

SHOP = """
import dataclasses

from kernel_serve.api.deployment import deployment


@deployment(num_replicas=2, actor_options={"num_cpus": 0.5, "runtime_env": {"env_vars": {"OWN": "1"}}})
class Model:
    def __init__(self, size="small"):
        self.size = size

    def reconfigure(self, user_config): ...


@deployment(autoscaling_config={"min_replicas": 1, "max_replicas": 4})
class Front:
    def __init__(self, model):
        self.model = model


class Sizes:
    # Validates as pydantic's models do.

    def __init__(self, size, count):
        self.size, self.count = size, count

    @classmethod
    def model_validate(cls, given):
        return cls(given["size"] if "size" in given else "", int(given.get("count", 1)))


@dataclasses.dataclass
class Plain:
    size: str
    count: int = 1


app = Front.bind(Model.bind())
unbound = Model
number = 3


def with_dict(args):
    return Model.bind(args["size"])


def with_model(args: Sizes):
    return Model.bind(f"{args.size} {args.count}")


def with_dataclass(args: Plain):
    return Model.bind(f"{args.size} {args.count}")


def with_nothing():
    return Model.bind()


def with_two(one, two):
    return Model.bind()


def wrong():
    return 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path, with the module `corner_shop`."""
    (tmp_path / "corner_shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget_modules(str(tmp_path))


def specification(text: str, directory: str | None = None) -> ApplicationSpec:
    """Return the specification of a file's first application."""
    config = read(textwrap.dedent(text), "serve.yaml")
    return build_application(config.applications[0], config.logging_config, directory)


def arguments(spec: ApplicationSpec) -> tuple[Any, ...]:
    """Return the arguments of the ingress' constructor."""
    (ingress,) = (each for each in spec.deployments if each.name == spec.ingress)
    return pickle.loads(ingress.code)[1]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("folder")
class TestImporting:
    @pytest.mark.parametrize("path", ["corner_shop:app", "corner_shop.app"])
    def test_an_application_is_found(self, path: str) -> None:
        assert import_application(path).deployment.name == "Front"

    @pytest.mark.parametrize(
        ("builder", "expected"),
        [("with_dict", "large"), ("with_model", "large 1"), ("with_dataclass", "large 1")],
    )
    def test_a_builder_gets_its_arguments(self, builder: str, expected: str) -> None:
        spec = specification(f"applications: [{{import_path: 'corner_shop:{builder}', args: {{size: large}}}}]")
        assert arguments(spec) == (expected,)

    def test_a_builder_may_take_nothing(self) -> None:
        assert arguments(specification("applications: [{import_path: 'corner_shop:with_nothing'}]")) == ()

    @pytest.mark.parametrize(
        ("path", "args", "message"),
        [
            ("corner_shop:ap", {}, "module corner_shop has no 'ap' (for corner_shop:ap); did you mean 'app'?"),
            (
                "corner_shop:zzzz",
                {},
                "module corner_shop has no 'zzzz' (for corner_shop:zzzz); there are: Model, Front,",
            ),
            (
                "corner_shop.py:app",
                {},
                "'corner_shop.py:app' names a file; expected its module, as in 'corner_shop:ap",
            ),
            ("./old/shop.py:app", {}, "names a file; expected its module, as in 'old.shop:app'"),
            ("corner_shap:app", {}, "there is no module 'corner_shap' (for corner_shap:app) on the path: "),
            ("corner_shop:app", {"a": 1}, "corner_shop:app is an application, not a function that builds one"),
            ("corner_shop:unbound", {}, "is a deployment that is not bound; write there: Model.bind(...)"),
            ("corner_shop:number", {}, "corner_shop:number is a int; expected what bind() returns, or a function"),
            ("corner_shop:wrong", {}, "corner_shop:wrong returned a int; expected what bind() returns"),
            ("corner_shop:with_nothing", {"a": 1}, "corner_shop:with_nothing() takes no arguments, but was given a"),
            ("corner_shop:with_two", {}, "corner_shop:with_two() must take one argument, all of `args` together"),
            (
                "corner_shop:with_model",
                {"count": "x"},
                "corner_shop:with_model() can't be called with these arguments:",
            ),
            ("corner_shop:with_dataclass", {"sizes": 1}, "has no setting 'sizes'; did you mean 'size'?"),
            ("corner_shop:with_dataclass", {}, "can't be called with these arguments: "),
            ("nonsense", {}, "'nonsense' is no import path; expected \"module:name\""),
        ],
    )
    def test_what_is_wrong_is_named(self, path: str, args: dict[str, Any], message: str) -> None:
        with pytest.raises(DeploymentError) as caught:
            import_application(path, args)
        assert message in str(caught.value)

    def test_a_module_that_misses_another_says_which(self, folder: Path) -> None:
        (folder / "leaky.py").write_text("import not_installed_anywhere\n")
        with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
            import_application("leaky:app")

    def test_what_is_not_there_is_told_with_the_place_in_the_file(self) -> None:
        with pytest.raises(DeploymentError, match="^serve.yaml:3: applications\\[0\\]: module corner_shop has no 'ap'"):
            specification("\napplications:\n  - import_path: corner_shop:ap\n")

    def test_a_module_that_raises_is_told_with_the_frames_that_are_its_own(self, folder: Path) -> None:
        (folder / "leaky.py").write_text("def divide():\n    return 1 // 0\n\ndivide()\n")
        with pytest.raises(DeployFailedError) as caught:
            specification("\napplications:\n  - import_path: leaky:app\n")
        lines = str(caught.value).splitlines()
        assert lines[0] == "serve.yaml:3: applications[0]: leaky:app can't be imported:"
        assert [line.split(",")[-1] for line in lines if line.startswith("  File")] == [" in <module>", " in divide"]
        assert lines[-1].startswith("ZeroDivisionError: ")


@pytest.mark.usefixtures("folder")
class TestOverrides:
    TEXT = """
    logging_config: {log_level: DEBUG, encoding: JSON}
    applications:
      - name: shop
        import_path: corner_shop:app
        runtime_env: {env_vars: {MODE: fast, OWN: "0"}}
        logging_config: {log_level: ERROR}
        deployments:
          - name: Model
            num_replicas: 7
            user_config: {a: 1}
          - name: Front
            num_replicas: auto
    """

    def test_the_file_has_the_last_word(self) -> None:
        spec = specification(self.TEXT)
        model, front = spec.deployments
        assert (model.settings.num_replicas, model.settings.user_config) == (7, {"a": 1})
        assert front.settings.autoscaling is not None and front.settings.autoscaling.max_replicas == 100
        assert front.settings.num_replicas is None

    def test_surroundings_and_logging_of_the_application_are_those_of_its_deployments(self) -> None:
        model, front = specification(self.TEXT).deployments
        assert model.settings.actor_options["num_cpus"] == 0.5
        assert model.settings.actor_options["runtime_env"] == {"env_vars": {"MODE": "fast", "OWN": "1"}}
        assert front.settings.actor_options == {"runtime_env": {"env_vars": {"MODE": "fast", "OWN": "0"}}}
        assert model.settings.logging_config == {"log_level": "ERROR", "encoding": "JSON"}

    def test_a_deployment_that_there_is_not_is_named(self) -> None:
        with pytest.raises(DeploymentError) as caught:
            specification(self.TEXT.replace("name: Model", "name: Modell"))
        assert str(caught.value) == (
            "serve.yaml:9: applications[0].deployments[0]: application shop has no deployment 'Modell'; "
            "did you mean 'Model'?"
        )

    def test_a_setting_that_does_not_fit_the_codes_is_named_with_its_place(self) -> None:
        text = self.TEXT.replace("num_replicas: auto", "max_replicas_per_node: 2")
        source = SHOP.replace(
            "@deployment(autoscaling", "@deployment(placement_group_bundles=[{'CPU': 1}], autoscaling"
        )
        sys.modules.pop("corner_shop", None)
        folder = Path(sys.path[0])
        (folder / "corner_shop.py").write_text(source)
        with pytest.raises(DeploymentError, match="max_replicas_per_node can't be combined with placement_group"):
            specification(text)


@pytest.mark.usefixtures("folder")
class TestCodePaths:
    FILE = "applications: [{import_path: 'corner_shop:app'}]"

    def test_changed_code_is_another_version(self, folder: Path) -> None:
        first = specification(self.FILE, str(folder))
        forget_modules(str(folder))
        same = specification(self.FILE, str(folder))
        assert [each.version for each in same.deployments] == [each.version for each in first.deployments]
        (folder / "corner_shop.py").write_text(SHOP + "\nmore = 1\n")
        forget_modules(str(folder))
        other = specification(self.FILE, str(folder))
        assert not {each.version for each in other.deployments} & {each.version for each in first.deployments}

    def test_other_arguments_are_another_version_and_another_number_is_not(self) -> None:
        text = "applications: [{import_path: 'corner_shop:with_dict', args: {size: large}, deployments: [%s]}]"
        first = specification(text % "").deployments[0]
        more = specification(text % "{name: Model, num_replicas: 9}").deployments[0]
        smaller = specification((text % "").replace("large", "small")).deployments[0]
        assert more.version == first.version != smaller.version
        assert more.settings.num_replicas == 9

    def test_a_replica_finds_the_code_and_gives_up_an_older_one(self, folder: Path) -> None:
        (folder / "paint_shop.py").write_text(
            "import palette\nfrom kernel_serve.api.deployment import deployment\n"
            "@deployment\nclass Paint:\n    def __init__(self):\n        self.colour = palette.COLOUR\n"
            "app = Paint.bind()\n"
        )
        file = "applications: [{import_path: 'paint_shop:app'}]"
        codes = []
        for colour in ("red", "light blue"):
            (folder / "palette.py").write_text(f"COLOUR = {colour!r}\n")
            forget_modules(str(folder))
            codes.append(specification(file, str(folder)).deployments[0].code)
        forget_modules(str(folder))
        sys.path.remove(str(folder))
        _loaded.clear()
        sys.modules["palette"] = older = ModuleType("palette")
        older.__file__, older.COLOUR = str(folder / "palette.py"), "red"  # type: ignore[attr-defined]
        assert pickle.loads(codes[0])[0]().colour == "red"
        assert pickle.loads(codes[1])[0]().colour == "light blue"
        assert set(modules_below(str(folder))) == {"palette"}


def test_services_of_grpc_have_another_version_when_their_files_change(tmp_path: Path) -> None:
    options = GRPCOptions(grpc_servicer_functions=("shop.words_pb2_grpc:add", "other.add"))
    seen = [services_version(options, str(tmp_path))]
    (tmp_path / "shop").mkdir()
    for name, text in (("words_pb2_grpc", "1"), ("words_pb2", "1"), ("words_pb2", "2")):
        (tmp_path / "shop" / f"{name}.py").write_text(text)
        seen.append(services_version(options, str(tmp_path)))
    assert len(set(seen)) == 4
    (tmp_path / "shop" / "model.py").write_text("what else there is")
    assert services_version(options, str(tmp_path)) == seen[-1]


class TestSteps:
    STATUS: dict[str, Any] = {
        "applications": {"shop": {"ingress": "Front"}, "old": {"ingress": "X"}, "by hand": {"ingress": "Y"}},
        "endpoints": [{"name": "shop"}, {"name": "before"}],
    }

    def test_what_was_in_the_file_before_is_deleted_and_nothing_else(self) -> None:
        before = read(
            "applications: [{import_path: a:b, name: shop}, {import_path: a:b, name: old, route_prefix: /o},"
            "{import_path: a:b, name: never, route_prefix: /n}]\n"
            "endpoints: [{name: before, prefix: /b, targets: [{app: shop}]}]"
        ).data
        config = read(
            "applications: [{import_path: a:b, name: shop}]\n"
            "endpoints: [{name: split, prefix: /s, targets: [{app: shop, weight: 9}, {app: by hand}]}]"
        )
        spec = ApplicationSpec("shop", "Front", ())
        first, endpoint, *rest = steps(config, [spec], before, self.STATUS)
        assert first == ConfigStep("deploy", ([spec],))
        assert endpoint.method == "set_endpoint"
        assert endpoint.arguments[0].targets == (Target("shop#Front", 9.0), Target("by hand#Y", 1.0))
        assert rest == [ConfigStep("delete_endpoint", ("before",)), ConfigStep("delete", (["old"],))]

    def test_an_endpoint_needs_an_application_that_there_will_be(self) -> None:
        before = read("applications: [{import_path: a:b, name: old}]").data
        config = read("endpoints: [{name: split, prefix: /s, targets: [{app: old}]}]", "serve.yaml")
        with pytest.raises(
            DeploymentError, match=r"serve.yaml:1: endpoints\[0\].targets\[0\]: there is no application 'o"
        ):
            steps(config, [], before, self.STATUS)


@pytest.mark.usefixtures("folder")
class TestWriting:
    def written(self, path: str, **more: Any) -> str:
        return write([Written(path, import_application(path), **more)])

    def test_what_is_written_reads_as_it_is(self) -> None:
        text = self.written("corner_shop:app", name="shop", route_prefix="/shop")
        config = read(text)
        (shop,) = config.applications
        assert (shop.name, shop.route_prefix, shop.import_path) == ("shop", "/shop", "corner_shop:app")
        assert {each.name: each.options["max_ongoing_requests"] for each in shop.deployments} == {
            "Model": 5,
            "Front": 5,
        }
        plain = specification("applications: [{name: shop, route_prefix: /shop, import_path: 'corner_shop:app'}]")
        assert build_application(shop, {}) == plain
        assert "# This one takes the requests from outside.\n      - name: Front\n" in text

    def test_several_applications_are_written(self) -> None:
        app = import_application("corner_shop:app")
        text = write([Written("corner_shop:app", app, "one", "/one"), Written("corner_shop:app", app, "two", None)])
        assert [(each.name, each.route_prefix) for each in read(text).applications] == [("one", "/one"), ("two", None)]

    def test_what_yaml_can_not_say_is_refused(self, folder: Path) -> None:
        (folder / "odd_shop.py").write_text(
            "from kernel_serve.api.deployment import deployment\n"
            "@deployment(user_config={'a': object()})\nclass A:\n    def reconfigure(self, c): ...\napp = A.bind()\n"
            "@deployment(autoscaling_config={'policy': lambda context: 1})\nclass B: ...\nother = B.bind()\n"
        )
        with pytest.raises(DeploymentError, match="a configuration file can't hold a object"):
            self.written("odd_shop:app")
        with pytest.raises(DeploymentError, match=r"deployment B: the autoscaling policy .* has no import path"):
            self.written("odd_shop:other")
