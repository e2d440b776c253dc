"""What code asks of where it runs, and of a stream that it reads, in Ray's words."""

from __future__ import annotations

from .test_compat_ray_import import run

PROGRAM = """
import kernel_compat_ray.install, ray
ray.init(num_cpus=1, runtime_env={"env_vars": {"A": "1"}})

@ray.remote
def environment():
    context = ray.get_runtime_context()
    return context.runtime_env["env_vars"], context.get_runtime_env_string()

print(ray.get(environment.remote())[0], ray.get_runtime_context().runtime_env["env_vars"])
print(*ray.get(environment.options(runtime_env={"env_vars": {"B": "2"}}).remote()))

@ray.remote
def items():
    yield 1

stream = items.remote()
ray.wait([stream], timeout=120)
print(stream.next_ready(), ray.get(next(stream)))
ray.get(stream.completed())
print(stream.next_ready(), next(stream, "over"), stream.next_ready())
print(isinstance(ray.remote(type("Actor", (), {"call": lambda self: 1})).remote().call, ray.actor.ActorMethod))
"""


def test_environments_and_streams() -> None:
    done = run(PROGRAM)
    assert done.stdout.splitlines() == [
        "{'A': '1'} {'A': '1'}",
        """{'A': '1', 'B': '2'} {"env_vars": {"A": "1", "B": "2"}}""",
        "True 1",
        "False over False",
        "True",
    ], done.stderr
