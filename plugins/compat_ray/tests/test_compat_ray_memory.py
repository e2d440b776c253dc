"""What `memory_summary` says of references."""

from __future__ import annotations

from pathlib import Path

from .test_compat_ray_import import run

PROGRAM = """
import kernel_compat_ray.install, ray
from ray.internal.internal_api import memory_summary
ray.init(num_cpus=1)
inner = ray.put(b"x" * 1_000_000)
outer = ray.put([inner])
del inner
ray.get(ray.put(0))  # references that went are counted by then
print(memory_summary())
"""


def test_lines_of_puts_and_objects_in_objects(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')")
    (inner,) = (line for line in done.stdout.splitlines() if "1,000," in line and "(put object)" in line)
    assert "CAPTURED_IN_OBJECT" in inner and inner.endswith(f"{program}:<module>:5"), done.stdout
    (outer,) = (line for line in done.stdout.splitlines() if line.endswith(f"{program}:<module>:6"))
    assert "LOCAL_REFERENCE" in outer, done.stdout
