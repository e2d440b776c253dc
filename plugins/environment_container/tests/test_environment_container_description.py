"""The values of the fields `container` and `image_uri`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_container.description import Image, check, image_of, prepare

from kernel_spec.errors import RuntimeEnvError


@pytest.mark.parametrize(
    ("field", "given", "image"),
    [
        ("image_uri", "docker.io/library/python:3.12", Image("docker.io/library/python:3.12")),
        ("image_uri", Path("/srv/image"), Image("/srv/image")),
        ("image_uri", "~/image", Image(os.path.expanduser("~/image"))),
        ("container", {"image": "a"}, Image("a", (), "python3")),
        ("container", {"image": "a", "run_options": None, "python": None}, Image("a", (), "python3")),
        (
            "container",
            {"image": "a", "run_options": ["--cap-drop SYS_ADMIN", "--env 'A=b c'"], "worker_path": "/w.py"},
            Image("a", ("--cap-drop", "SYS_ADMIN", "--env", "A=b c")),
        ),
        ("container", {"image": "a", "python": "/opt/conda/bin/python"}, Image("a", (), "/opt/conda/bin/python")),
    ],
)
def test_what_is_given_has_one_form(field: str, given: Any, image: Image) -> None:
    check(field, given)
    prepared = prepare(field, given)
    check(field, prepared)
    assert prepare(field, prepared) == prepared
    assert image_of(prepared) == image
    assert image.is_directory == image.name.startswith("/")


@pytest.mark.parametrize(
    ("field", "given", "text"),
    [
        ("image_uri", 5, r"runtime_env\['image_uri'\] must be the name of an image, or the absolute path of"),
        ("image_uri", {"image": "a"}, r"runtime_env\['image_uri'\] must be the name of an image"),
        ("image_uri", "", "is empty; name an image, or leave the field out"),
        ("image_uri", "--privileged", "is '--privileged', which can't be the name of an image"),
        ("image_uri", "a b", "is 'a b', which can't be the name of an image"),
        ("container", "a", r"must be a dict such as \{'image': 'docker.io/library/python:3.12'\}, not 'a'"),
        ("container", {}, r"must name the image, as in \{'image': 'docker.io"),
        ("container", {"image": ""}, r"runtime_env\['container'\]\['image'\] is empty"),
        ("container", {"imag": "a"}, "has no key 'imag'; did you mean 'image'"),
        ("container", {"xyz": "a"}, "has no key 'xyz'; it has image, run_options, python, worker_path"),
        ("container", {"image": "a", "run_options": "--rm"}, r"\['run_options'\] must be a list of options such as"),
        ("container", {"image": "a", "run_options": [5]}, r"must be a list of options such as .*, not \[5\]"),
        ("container", {"image": "a", "run_options": ["--env 'A"]}, "has \"--env 'A\", which can't be split into words"),
        ("container", {"image": "a", "python": 5}, r"\['python'\] must be a path in the image, not 5"),
        ("container", {"image": "a", "worker_path": 5}, r"\['worker_path'\] must be a path in the image, not 5"),
    ],
)
def test_a_wrong_value_is_refused(field: str, given: Any, text: str) -> None:
    with pytest.raises(RuntimeEnvError, match=text):
        check(field, given)
