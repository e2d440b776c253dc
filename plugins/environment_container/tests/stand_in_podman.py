"""Write a program that is run as podman is, for tests on machines without it: what it "contains" sees this machine."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = '''#!{python}
"""Like podman: what it runs is no child of it, goes on when it is killed, and has variables of its own.

`records` beside it has a file for each container, with its label. `calls` has a line for each call.
"""
import json, os, pathlib, sys

HERE = pathlib.Path(__file__).parent
RECORDS = HERE / "records"
WITH_VALUES = {{"--network", "--pid", "--ipc", "--log-driver", "--security-opt", "--user", "--userns", "--workdir"}}


def run(words):
    label, variables, entrypoint = "", {{"PATH": "/usr/bin:/bin", "HOME": "/", "OF_THE_IMAGE": "yes"}}, ""
    while words[0].startswith("-"):
        word = words.pop(0)
        if word == "--label":
            label = words.pop(0)
        elif word == "--env":
            name, _, text = words.pop(0).partition("=")
            variables[name] = text
        elif word == "--entrypoint":
            entrypoint = words.pop(0)
        elif word == "--volume":
            source, target, *_ = words.pop(0).split(":")
            if source != target and not os.path.islink(target):
                os.rmdir(target)
                os.symlink(source, target)
        elif word in WITH_VALUES:
            words.pop(0)
    image, *arguments = words
    if image == "image-that-there-is-not":
        sys.exit("Error: no such image")
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(reader)
        watch(entrypoint, arguments, variables, label, writer)
    os.close(writer)
    os.wait()
    sys.exit(int(os.read(reader, 8)))


def watch(entrypoint, arguments, variables, label, writer):
    os.setsid()
    worker = os.fork()
    if worker == 0:
        os.close(writer)
        os.execvpe(entrypoint, [entrypoint, *arguments], variables)
    record = RECORDS / str(worker)
    record.write_text(label)
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    record.unlink()
    try:
        os.write(writer, str(code if code >= 0 else 128 - code).encode())
    except BrokenPipeError:
        pass  # who has started it was killed
    os._exit(0)


def main():
    with open(HERE / "calls", "a") as calls:
        print(json.dumps(sys.argv[1:]), file=calls)
    order, *words = sys.argv[1:]
    if order == "run":
        run(words)
    if order == "ps":
        for record in RECORDS.iterdir():
            print(record.name, "map[" + record.read_text().replace("=", ":") + "]")
    if order == "rm":
        for name in words[1:]:
            (RECORDS / name).unlink()


main()
'''


def write_podman(directory: Path) -> Path:
    """Write the program into a directory, and return its path."""
    (directory / "records").mkdir(parents=True)
    path = directory / "podman"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path
