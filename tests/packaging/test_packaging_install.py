"""What the README promises about installing, each in a fresh virtual environment.

The third-party packages come from the configured index; ours must come from the checkout, or from `dist/`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

LIMIT_SECONDS = 900
"""What an index that answers slowly may take; a test and a command each."""
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(LIMIT_SECONDS)]

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = (
    "accelerator-nvidia",
    "autoscaler",
    "compat-ray",
    "control-grpc",
    "engine",
    "environment-interpreter",
    "environment-pip",
    "launcher",
    "local-mode",
    "metadata-sqlite",
    "network-tcp",
    "parallel",
    "processes",
    "rllib",
    "runs",
    "scheduler-fair",
    "scheduler-fifo",
    "serializer-arrow",
    "serve",
    "serve-http2",
    "store-plasma",
    "tune",
)
"""What kernel[plugins] brings."""
ALL = {"kernel", "kernel-spec", *(f"kernel-{name}" for name in PLUGINS)}
NO_PLUGINS = {"engine", "local_mode", "network_tcp", "parallel", "processes", "runs", "serve_http2"}
"""Libraries are mounted, engines and networks opened by name, and serve finds protocols: none of them is a plugin."""
NAMES = {name.replace("-", "_") for name in PLUGINS} - NO_PLUGINS
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "dist", "build", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "node_modules"
)


QUICK_PIP = {
    "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR") or os.path.expanduser("~/.cache/pip"),
    "PIP_DEFAULT_TIMEOUT": "20",
}
"""What others published is downloaded once. An index that is silent is asked again."""

QUICK_INSTALL = ("install", "--no-compile")
"""What is used is compiled then."""


BUILDERS = ["hatchling>=1.24", "editables>=0.5"]
SHARED = ("--no-build-isolation", "--ignore-installed")
"""pip's options to build with what there is, and to install what is needed though the builders need some of it, too."""


class Environment:
    """A fresh virtual environment. pip runs from outside, so that none has to be installed first."""

    def __init__(self, folder: Path, *, sees_ours: bool = False) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        if sees_ours:
            # The packages around these tests (build tools, pytest...) count as installed.
            site = next(folder.glob("lib/python*/site-packages"))
            (site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, *command: str | Path, **environment: str) -> str:
        """Run a command as its user would, away from the checkout; return what it printed."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KERNEL_"))}
        result = subprocess.run(
            [str(part) for part in command],
            cwd=self.bin,
            env={**clean, **QUICK_PIP, "XDG_CACHE_HOME": str(self.bin / "cache"), **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    def pip(self, *arguments: str | Path, **environment: str) -> str:
        """Run pip on this environment."""
        return self.run(sys.executable, "-m", "pip", "--python", self.python, *arguments, **environment)

    def code(self, code: str) -> str:
        """Run Python code in this environment."""
        return self.run(self.python, "-c", code).strip()

    def installed(self) -> dict[str, str]:
        """Return name and version of every distribution of this project."""
        rows = json.loads(self.pip("list", "--format", "json", "--path", self._site()))
        return {row["name"]: row["version"] for row in rows if row["name"].startswith("kernel")}

    def origins(self) -> dict[str, dict[str, object]]:
        """Return where each distribution of this project was installed from, as pip recorded it."""
        found = {}
        for info in Path(self._site()).glob("kernel*.dist-info"):
            name = info.name.split("-")[0].replace("_", "-")
            record = info / "direct_url.json"
            found[name] = json.loads(record.read_text()) if record.is_file() else {}
        return found

    def plugins(self) -> dict[str, str]:
        """Return the plugins that `kernel plugins list` knows, and the problems of those that are broken."""
        data = json.loads(self.run(self.bin / "kernel", "plugins", "list", "--json"))
        return {row["name"]: row["problem"] for row in data["plugins"]}

    def _site(self) -> str:
        return str(next(self.bin.parent.glob("lib/python*/site-packages")))


def version() -> str:
    """Return the one version."""
    scope: dict[str, str] = {}
    exec((ROOT / "spec" / "kernel_spec" / "version.py").read_text(), scope)
    return scope["__version__"]


ALONE = {"kernel", "kernel-engine", "kernel-local-mode", "kernel-spec"}
"""What the kernel is with nothing besides."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this repository as a clone would be: without what builds and tests left in it."""
    folder = tmp_path_factory.mktemp("clone") / "kernel"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    return folder


@pytest.fixture(scope="module")
def built_with(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables by which pip finds what builds, to be given with SHARED.

    An environment for each build takes three times as long as the build. Those of the bare kernel and of one plugin get
    theirs; `test_all_are_built_by_the_same` says why that is enough.
    """
    folder = tmp_path_factory.mktemp("builders")
    command = [sys.executable, "-m", "pip", *QUICK_INSTALL, "--quiet", "--target", folder, *BUILDERS]
    subprocess.run(command, check=True, env={**os.environ, **QUICK_PIP}, timeout=LIMIT_SECONDS)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def dist(checkout: Path) -> Path:
    """`dist/`, built by the one command."""
    environment = {**os.environ, "KERNEL_BUILD_LINKED": "1"}  # must not matter
    subprocess.run(
        [sys.executable, checkout / "tools" / "build_wheels.py"], check=True, env=environment, timeout=LIMIT_SECONDS
    )
    return checkout / "dist"


def test_everything_from_a_checkout(checkout: Path, tmp_path: Path, built_with: dict[str, str]) -> None:
    environment = Environment(tmp_path / "venv")
    environment.pip(*QUICK_INSTALL, *SHARED, f"{checkout}[plugins]", **built_with)
    assert environment.installed() == dict.fromkeys(ALL, version())
    assert all(str(origin["url"]).startswith(checkout.as_uri()) for origin in environment.origins().values())
    assert environment.plugins() == dict.fromkeys({"local", *NAMES}, "")

    # The page shows what is printed, but for the width of columns.
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8").split()
    listed = environment.run(environment.bin / "kernel", "plugins", "list")
    table = listed[listed.index("CONTRACT") : listed.index("LIBRARY")].split()
    assert " ".join(table) in " ".join(page)

    # One plugin goes, the rest works; an example comes, and is found.
    environment.pip("uninstall", "-y", "kernel-serializer-arrow")
    environment.pip(*QUICK_INSTALL, "--no-build-isolation", checkout / "examples" / "plugin_hello", **built_with)
    assert environment.plugins() == dict.fromkeys({"local", "hello", *NAMES} - {"serializer_arrow"}, "")

    # What is for developers says what brings it, to programs of ray as well.
    for words, extra in (
        ("simulate", "simulation"),
        ("plugins check hello", "conformance"),
        ("plugins new", "conformance"),
    ):
        asked = f"import sys; sys.stderr = sys.stdout; from kernel.cli.main import main; main({words.split()})"
        assert environment.code(asked).endswith(f'is not installed: pip install "{checkout}[{extra}]"')
    asked = (
        "import kernel_compat_ray.install\nfrom ray.cluster_utils import Cluster\n"
        "try:\n    Cluster(initialize_head=True)\nexcept ImportError as error:\n    print(error)"
    )
    assert environment.code(asked).endswith(
        f'the library kernel.testing is not installed: pip install "{checkout}[testing]"'
    )
    environment.pip(*QUICK_INSTALL, *SHARED, f"{checkout}[conformance]", **built_with)
    assert environment.installed().keys() == {*ALL, "kernel-conformance", "kernel-hello"} - {"kernel-serializer-arrow"}
    assert "0 failed" in environment.run(environment.bin / "kernel", "plugins", "check", "hello")
    assert environment.run(environment.bin / "kernel", "hello", "--who", "you") == "Hello, you!\n"

    # A library is mounted from a wheel and from an editable install.
    for options in ([], ["--editable"]):
        folder = tmp_path / f"library{len(options)}"
        environment.run(environment.bin / "kernel", "plugins", "new", "library", "mine", "--path", folder)
        environment.pip(*QUICK_INSTALL, "--no-build-isolation", *options, folder, **built_with)
        same = "import kernel.mine.core, kernel_mine.core; print(kernel.mine.core is kernel_mine.core, {})"
        assert environment.code(same.format("kernel.mine.mine('you')")) == "True Hello, you!"
        assert environment.run(environment.python, "-m", "kernel.mine.core") == ""
        environment.pip("uninstall", "-y", "kernel-mine")


def test_the_bare_kernel(checkout: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.pip(*QUICK_INSTALL, checkout)
    assert environment.installed() == dict.fromkeys(ALONE, version())
    assert environment.plugins() == {"local": ""}
    asked = "import sys; sys.stderr = sys.stdout; import kernel; print(kernel.init()['local_mode'])"
    warned, shown = environment.code(asked).rsplit("\n", 1)
    assert f'(local mode); for all cores: pip install "{checkout}[plugins]"' in warned and shown == "True"
    asked = "import sys; sys.stderr = sys.stdout; from kernel.cli.main import main; main(['status'])"
    assert environment.code(asked) == (
        f"kernel: the command 'kernel status' is not installed: pip install \"{checkout}[processes]\""
    )
    said = environment.code(
        "from kernel.plugins import PluginManager\n"
        "try:\n    PluginManager.discover().choose('object_store')\nexcept LookupError as error:\n    print(error)\n"
        "try:\n    import kernel.tune\nexcept ImportError as error:\n    print(error)\n"
    )
    assert said.splitlines() == [
        "there is no object store named 'plasma' (the default); installed: local. "
        f'To get it: pip install "{checkout}[store_plasma]"',
        f'the library kernel.tune is not installed: pip install "{checkout}[tune]"',
    ]


def test_the_smallest_that_uses_all_cores(checkout: Path, tmp_path: Path, built_with: dict[str, str]) -> None:
    environment = Environment(tmp_path / "venv")
    environment.pip(*QUICK_INSTALL, *SHARED, f"{checkout}[processes]", **built_with)
    more = {"kernel-processes", "kernel-scheduler-fifo", "kernel-store-plasma"}
    assert environment.installed().keys() == ALONE | more
    program = (
        "import kernel, os\nkernel.init(num_cpus=1)\n"
        "print(kernel.get(kernel.remote(os.getpid).remote()) != os.getpid(), kernel.get(kernel.put('stored')))\n"
    )
    (tmp_path / "program.py").write_text(program)
    assert environment.run(environment.python, tmp_path / "program.py") == "True stored\n"
    assert environment.run(environment.bin / "kernel", "stop") != ""


def test_one_plugin_alone(checkout: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.pip(*QUICK_INSTALL, checkout / "plugins" / "store_plasma")
    assert environment.installed() == dict.fromkeys({"kernel-spec", "kernel-store-plasma"}, version())
    assert environment.code("import kernel_store_plasma.plugin as p; print(*p.kernel_object_stores())") == "plasma"


def test_one_is_installed_tested_and_uninstalled() -> None:
    """As all of them are by this command, which takes too long for every merge."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "alone.py", "kernel-metadata-sqlite"],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert re.fullmatch(r"kernel-metadata-sqlite +[\d.]+ +\d+  ok: \d+ passed", done.stdout.splitlines()[-1])


def test_editable_in_one_command(checkout: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", sees_ours=True)
    environment.run(sys.executable, checkout / "tools" / "dev_install.py", "--python", environment.python)
    origins = environment.origins()
    assert set(origins) >= ALL
    assert all(origin["dir_info"] == {"editable": True} for origin in origins.values())
    (checkout / "plugins" / "scheduler_fifo" / "kernel_scheduler_fifo" / "added_later.py").write_text("VALUE = 5\n")
    assert environment.code("import kernel_scheduler_fifo.added_later as a; print(a.VALUE)") == "5"
    assert set(environment.plugins().values()) == {""}


def test_from_built_wheels(dist: Path, tmp_path: Path) -> None:
    built = {wheel.name.split("-")[0].replace("_", "-") for wheel in dist.glob("*.whl")}
    assert built > ALL and built >= {"kernel-conformance", "kernel-metadata-redis", "kernel-testing"}
    environment = Environment(tmp_path / "venv")
    environment.pip(*QUICK_INSTALL, "--find-links", dist, f"kernel[plugins]=={version()}")
    assert environment.installed() == dict.fromkeys(ALL, version())
    for info in next(environment.bin.parent.glob("lib/python*/site-packages")).glob("kernel*.dist-info"):
        assert "@ file:" not in (info / "METADATA").read_text().split("\n\n")[0]
    assert environment.plugins() == dict.fromkeys({"local", *NAMES}, "")
    assert environment.code("import kernel; print(kernel.__version__)") == version()
    assert environment.code("from kernel.installing import install_command as c; print(c('tune'))") == (
        f'pip install --find-links FOLDER "kernel[tune]=={version()}" (FOLDER is where the wheels of kernel are)'
    )
