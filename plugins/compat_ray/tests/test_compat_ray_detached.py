"""Detached actors are found by programs that have said no namespace."""

from __future__ import annotations

from .test_compat_ray_import import run

PROGRAM = """
import kernel_compat_ray.install, subprocess, sys, ray
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})

def program(text):
    begin = "import kernel_compat_ray.install, ray; "
    done = subprocess.run([sys.executable, "-c", begin + text], capture_output=True, text=True, timeout=150)
    print(*done.stdout.splitlines(), *(done.stderr.splitlines()[-1:] if done.returncode else []))

join = f"ray.init({cluster.address!r}"
actor = "A = ray.remote(type('A', (), {'value': lambda self: 7})); "
make = ".remote(); print(ray.get(a.value.remote()))"
program(f"{join}); {actor} a = A.options(name='kept', lifetime='detached', num_cpus=0){make}")
program(f"{join}); print(ray.get(ray.get_actor('kept').value.remote()))")
program(f"{join}, namespace='mine'); ray.get_actor('kept')")
program(f"{join}); ray.get_actor('kept', namespace='mine')")
there = "name='there', namespace='said', lifetime='detached', num_cpus=0"
program(f"{join}); {actor} a = A.options({there}){make}; print([ray.get_actor(n) for n in ['there']])")
program(f"{join}); {actor} a = A.options(name='kept', lifetime='detached', num_cpus=0){make}; ray.get_actor('kept')")
program(f"{join}); ray.get_actor('kept')")
cluster.shutdown()
"""


def test_a_second_program_finds_it() -> None:
    lines = run(PROGRAM).stdout.splitlines()
    assert lines[:2] == ["7", "7"], lines
    for line in lines[2:4]:
        assert "ActorNotFoundError: no actor named 'kept' lives in namespace 'mine'" in line
    assert lines[4].startswith("7 ") and "no actor named 'there' lives in namespace" in lines[4]  # its own was said
    assert lines[5] == "7"  # it has one of that name itself
    assert "no actor named 'kept' lives in namespace" in lines[6]  # two have one: none is guessed
