"""V022-016, V022-104, V022-105: a simulator in an actor; its class is used here, too."""

import ray

ray.init()


class Pendulum:
    def __init__(self, angle=1.0):
        self.angle, self.speed = angle, 0.0

    def reset(self):
        self.__init__()
        return self.angle

    def step(self, push):
        self.speed += push - 0.5 * self.angle
        self.angle += 0.1 * self.speed
        return round(self.angle, 3), -abs(self.angle) < 0, False, {}


RemotePendulum = ray.remote(Pendulum)
remote, here = RemotePendulum.remote(), Pendulum()
print(ray.get(remote.step.remote(0.0)), here.step(0.0))
print(ray.get(remote.reset.remote()))


@ray.remote
class Child(Pendulum):
    def __init__(self):
        super().__init__(angle=2.0)

    def read(self):
        return self.angle


print(ray.get(Child.remote().read.remote()))

# prints:
# (0.95, True, False, {}) (0.95, True, False, {})
# 1.0
# 2.0
