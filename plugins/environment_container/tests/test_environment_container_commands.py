"""The program that runs containers: how it is found, what it is asked to do, and what an image must have."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from kernel_environment_container.commands import container_start, description_command
from kernel_environment_container.contents import ContainerContents, birth_of, check_contents, look
from kernel_environment_container.description import Image
from kernel_environment_container.leftovers import ended, remove_leftovers
from kernel_environment_container.programs import ContainerProgram, find_program

from kernel_spec.errors import RuntimeEnvError
from kernel_spec.version import __version__

TITLE = "runtime_env['container']"
NAMED, UNPACKED = Image("python:3.12"), Image("/srv/image")
NODE = f"{sys.version_info.major}.{sys.version_info.minor}"


def having(directory: Path, *programs: str) -> dict[str, str]:
    """Return variables of a node that has these programs."""
    for name in programs:
        (directory / name).touch(0o755)
    return {"PATH": str(directory)}


@pytest.mark.parametrize(
    ("programs", "image", "kind"),
    [
        (("bwrap", "docker", "podman"), NAMED, "podman"),
        (("bwrap", "docker"), NAMED, "docker"),
        (("bwrap", "docker", "podman"), UNPACKED, "podman"),
        (("bwrap", "docker"), UNPACKED, "bwrap"),
    ],
)
def test_the_first_program_that_can_run_the_image_is_taken(
    tmp_path: Path, programs: tuple[str, ...], image: Image, kind: str
) -> None:
    found = find_program("", image, having(tmp_path, *programs), TITLE)
    assert found == ContainerProgram(kind, (str(tmp_path / kind),))


def test_the_option_names_a_program_and_options_of_it(tmp_path: Path) -> None:
    variables = having(tmp_path, "docker", "podman")
    assert find_program("docker --context mine", NAMED, variables, TITLE) == ContainerProgram(
        "docker", (str(tmp_path / "docker"), "--context", "mine")
    )
    assert find_program(f"{tmp_path}/podman", NAMED, {}, TITLE).command == (str(tmp_path / "podman"),)


@pytest.mark.parametrize(
    ("setting", "programs", "image", "text"),
    [
        ("", (), NAMED, "no program that can run python:3.12 (looked on its PATH for podman, docker); install one of"),
        ("", (), UNPACKED, "no program that can run /srv/image (looked on its PATH for podman, bwrap); install one of"),
        ("", ("bwrap",), NAMED, "(looked on its PATH for podman, docker; bwrap has no images, and needs the absolute"),
        (
            "",
            ("docker",),
            UNPACKED,
            "(looked on its PATH for podman, bwrap; docker runs images alone, and no directory",
        ),
        ("podman", (), NAMED, "this node has no podman, which the option program names; install it"),
        ("bwrap", ("bwrap",), NAMED, "can't be python:3.12: bwrap has no images"),
        ("runc --debug", (), NAMED, "'runc --debug'; it must be podman, docker or bwrap, by name or path, and may"),
        ("podman '", (), NAMED, 'the option program is "podman \'", which is no command'),
    ],
)
def test_a_node_without_the_program_says_what_was_looked_for(
    tmp_path: Path, setting: str, programs: tuple[str, ...], image: Image, text: str
) -> None:
    with pytest.raises(RuntimeEnvError) as caught:
        find_program(setting, image, having(tmp_path, *programs), TITLE)
    assert text in str(caught.value) and str(caught.value).startswith(TITLE)


def test_podman_shares_what_a_worker_needs_and_options_come_last() -> None:
    image = Image("python:3.12", ("--cap-drop", "ALL"), "/opt/python")
    program = ContainerProgram("podman", ("/bin/podman", "--remote"))
    start = container_start(program, image, ["--device", "gpu"], ["/session"], "/session/entry.py", "1000:100")
    assert " ".join(description_command(start, 5, 7)) == (
        "/bin/podman --remote run --rm --interactive --network host --pid host --ipc host --log-driver none "
        "--security-opt label=disable --user 1000:100 --label kernel.client=5-7 --workdir / --userns keep-id "
        "--volume /session:/session --device gpu --cap-drop ALL --entrypoint /opt/python python:3.12 "
        "/session/entry.py describe 5 7"
    )
    assert start["mount"] == ["--volume", "{source}:{target}:ro"] and start["shared"] == ["/session"]
    assert json.loads(json.dumps(start)) == start


def test_user_ids_are_podmans_matter_and_only_without_root() -> None:
    for kind, user, mapped in (("podman", "1000:100", True), ("podman", "0:0", False), ("docker", "1000:100", False)):
        start = container_start(ContainerProgram(kind, (kind,)), NAMED, (), ("/s",), "/s/entry.py", user)
        assert ("keep-id" in start["before"]) == mapped


def test_podman_takes_a_root_file_system() -> None:
    start = container_start(ContainerProgram("podman", ("podman",)), UNPACKED, (), ("/s",), "/s/entry.py", "0:0")
    assert start["after"] == ["--entrypoint", "python3", "--rootfs", "/srv/image", "/s/entry.py"]


def test_bubblewrap_mounts_a_root_file_system(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hosts").touch()
    image = Image(str(tmp_path), ("--ro-bind", "/data", "/data"))
    start = container_start(ContainerProgram("bwrap", ("bwrap",)), image, ["--new"], ["/session"], "/session/e.py", "")
    assert " ".join(description_command(start, 5, 7)) == (
        f"bwrap --bind {tmp_path} / --bind /proc /proc --dev-bind /dev /dev --ro-bind-try /sys /sys --tmpfs /tmp "
        f"--chdir / --clearenv --ro-bind {os.path.realpath('/etc/hosts')} /etc/hosts "
        "--setenv PATH /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --setenv HOME / "
        "--bind /session /session --new --ro-bind /data /data -- python3 /session/e.py describe 5 7"
    )
    assert start["mount"] == ["--ro-bind", "{source}", "{target}"]


def contents(python: str = NODE, kernel: str = "", sees: bool = True) -> ContainerContents:
    return ContainerContents(python, [], {}, kernel, sees)


def test_what_an_image_has_is_its_last_line(capfd: pytest.CaptureFixture[str]) -> None:
    said = json.dumps({"python": NODE, "packages": ["/a"], "variables": {"A": "b"}, "kernel": "", "sees": True})
    found = look(TITLE, NAMED, ["sh", "-c", f"echo fetching >&2; echo hello; echo '{said}'"])
    assert found == ContainerContents(NODE, ["/a"], {"A": "b"}, "", True)
    check_contents(TITLE, NAMED, found)
    assert capfd.readouterr().err == "fetching\n"


def test_an_image_that_can_not_be_run_is_told_with_what_was_written_last() -> None:
    with pytest.raises(RuntimeEnvError) as caught:
        look(TITLE, NAMED, ["sh", "-c", "echo nothing here >&2; exit 125"])
    assert str(caught.value) == (
        "runtime_env['container']: no container of python:3.12 can be run; `sh -c 'echo nothing here >&2; exit 125'` "
        "ended with exit code 125, and wrote at last:\n  nothing here"
    )
    with pytest.raises(RuntimeEnvError, match="ended with exit code 0, and wrote at last: nothing"):
        look(TITLE, NAMED, ["true"])


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            contents(python="2.7"),
            f"{TITLE}: python:3.12 has Python 2.7 as 'python3', and this node runs Python {NODE}; the two must be of "
            "one version: take another image, or another python of it",
        ),
        (
            contents(kernel="0.1"),
            f"{TITLE}: python:3.12 has kernel 0.1, and this node runs kernel {__version__}; install that one into the "
            "image, or none: workers then use the node's",
        ),
        (
            contents(sees=False),
            f"{TITLE}: containers of python:3.12 do not see the node's processes; leave options out that give them "
            "processes of their own (--pid, --unshare-pid), and use a program that runs them on this machine",
        ),
    ],
)
def test_an_image_in_which_no_worker_can_run_is_refused(found: ContainerContents, text: str) -> None:
    with pytest.raises(RuntimeEnvError) as caught:
        check_contents(TITLE, NAMED, found)
    assert str(caught.value) == text


def test_an_image_with_the_nodes_kernel_is_taken() -> None:
    check_contents(TITLE, NAMED, contents(kernel=__version__))


def test_containers_are_left_over_when_the_process_that_ran_them_has_ended() -> None:
    here = f"{os.getpid()}-{birth_of(os.getpid())}"
    lines = [
        f"a map[kernel.client:{here}]",
        f"b map[x:y kernel.client:{os.getpid()}-1]",
        "c kernel.client=999999999-5,x=y",
    ]
    assert ended([*lines, "d of somebody else", ""]) == ["b", "c"]


def test_what_is_left_over_is_removed(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n[ $1 = ps ] && echo x kernel.client=999999999-5\n')
    program.chmod(0o755)
    remove_leftovers(ContainerProgram("docker", (str(program),)))
    assert (tmp_path / "calls").read_text() == (
        "ps --all --filter label=kernel.client --format {{.ID}} {{.Labels}}\nrm --force x\n"
    )
    remove_leftovers(ContainerProgram("bwrap", ("bwrap-that-there-is-not",)))
