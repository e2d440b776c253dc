"""A conda channel, and a wheel, on this machine, with tiny packages and the Python that runs the tests."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_environment_conda.installation import node_version

NOARCH_PYTHON = {"noarch": {"type": "python"}, "package_metadata_version": 1}


class Channel:
    """A channel below `folder`, which `write_index` makes readable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records: dict[str, dict[str, Any]] = {"linux-64": {}, "linux-aarch64": {}, "noarch": {}}
        self.url = folder.as_uri()

    def add_module(self, name: str, version: str, text: str, depends: Sequence[str] = ("python",)) -> None:
        """Add a package with one module, which has the package's name."""
        files = {f"site-packages/{name}.py": text.encode()}
        self._add("noarch", {"name": name, "version": version, "depends": list(depends), "noarch": "python"}, files, {})

    def add_program(self, name: str, text: str) -> None:
        """Add a package with one program in `bin`, and without Python."""
        self._add(
            "noarch",
            {"name": name, "version": "1.0", "depends": [], "noarch": "generic"},
            {f"bin/{name}": text.encode()},
            {},
        )

    def add_python(self) -> None:
        """Add this machine's Python as a package: the program, an empty site-packages, and links to the library.

        The program is no link: from where it is it knows where its packages are.
        """
        here, library = f"python{node_version()}", Path(sysconfig.get_path("stdlib"))
        program = Path(sys.base_prefix, "bin", here).read_bytes()
        links = {f"lib/{here}/{path.name}": str(path) for path in library.iterdir() if path.name != "site-packages"}
        links["bin/python"] = here
        files = {f"bin/{here}": program, f"lib/{here}/site-packages/README.txt": b"Packages go here.\n"}
        about = {"name": "python", "version": sysconfig.get_config_var("py_version"), "depends": []}
        self._add(_platform(), about, files, links)

    def write_index(self) -> None:
        """Write what a solver reads."""
        for subdir, records in self._records.items():
            folder = self._folder / subdir
            folder.mkdir(parents=True, exist_ok=True)
            index = {"info": {"subdir": subdir}, "packages": records, "packages.conda": {}, "repodata_version": 1}
            (folder / "repodata.json").write_text(json.dumps(index))

    def _add(self, subdir: str, about: dict[str, Any], files: Mapping[str, bytes], links: Mapping[str, str]) -> None:
        index = {**about, "build": "0", "build_number": 0, "subdir": subdir, "license": "MIT"}
        paths = [{"_path": path, "path_type": "softlink", "sha256": "0" * 64, "size_in_bytes": 0} for path in links]
        paths += [
            {
                "_path": path, "path_type": "hardlink", "size_in_bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            for path, data in files.items()
        ]  # fmt: skip
        content = {
            **files,
            "info/index.json": json.dumps(index).encode(),
            "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
        }
        if about.get("noarch") == "python":
            content["info/link.json"] = json.dumps(NOARCH_PYTHON).encode()
        name = f"{about['name']}-{about['version']}-0.tar.bz2"
        path = self._folder / subdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:bz2") as archive:
            for inside, data in content.items():
                member = tarfile.TarInfo(inside)
                member.size, member.mode = len(data), 0o755
                archive.addfile(member, io.BytesIO(data))
            for inside, target in links.items():
                member = tarfile.TarInfo(inside)
                member.type, member.linkname = tarfile.SYMTYPE, target
                archive.addfile(member)
        packed = path.read_bytes()
        self._records[subdir][name] = {
            **index,
            "sha256": hashlib.sha256(packed).hexdigest(),
            "md5": hashlib.md5(packed).hexdigest(),
            "size": len(packed),
        }


def _platform() -> str:
    return "linux-aarch64" if os.uname().machine == "aarch64" else "linux-64"


def make_wheel(folder: Path, name: str) -> None:
    """Write version 1.0 of a wheel with one empty module, for pip."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
