"""Actor classes have what their class has, as Ray's do."""

from __future__ import annotations

from .test_compat_ray_import import run

PROGRAM = """
import kernel_compat_ray.install, ray
ray.init(num_cpus=1)

@ray.remote
class Shelf:
    WIDTH = 80
    @staticmethod
    def doubled(width):
        return 2 * width
    @ray.method
    def __len__(self):
        return 7
    def look(self):
        return Shelf.WIDTH, Shelf.doubled(1), isinstance(self, Shelf)

shelf = Shelf.remote()
print(Shelf.WIDTH, Shelf.doubled(3), ray.get([shelf.look.remote(), shelf.__len__.remote()]))
for wrong in (lambda: shelf.look.remote(1), lambda: exec("class Child(Shelf): pass")):
    try:
        wrong()
    except TypeError as error:
        print(error)
"""


def test_constants_static_methods_and_mistakes():
    done = run(PROGRAM)
    assert done.stdout.splitlines() == [
        "80 6 [(80, 2, True), 7]",
        "Shelf.look() takes 0 positional arguments but 1 was given",
        "a class can't inherit from the actor class Shelf: inherit from a plain class, and make actor classes of both, "
        "as in `class PlainShelf: ...` and `Shelf = kernel.remote(PlainShelf)`",
    ], done.stderr
