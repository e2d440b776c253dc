"""08, chapter 3: a maze, random play, and a table of values that is trained here and by actors."""

import random

import ray

ray.init()
SIZE, MOVES = 5, ((1, 0), (0, 1), (-1, 0), (0, -1))
random.seed(0)


class Environment:
    def __init__(self):
        self.place = (0, 0)

    def reset(self):
        self.place = (0, 0)
        return 0

    def step(self, action):
        row, column = self.place
        down, right = MOVES[action]
        self.place = (min(max(row + down, 0), SIZE - 1), min(max(column + right, 0), SIZE - 1))
        state = self.place[0] * SIZE + self.place[1]
        done = self.place == (SIZE - 1, SIZE - 1)
        return state, (1 if done else 0), done


class Policy:
    def __init__(self):
        self.table = [[0.0] * len(MOVES) for _ in range(SIZE * SIZE)]

    def action(self, state, explore=True, epsilon=0.3):
        if explore and random.random() < epsilon:
            return random.randrange(len(MOVES))
        return max(range(len(MOVES)), key=lambda action: self.table[state][action])


class Simulation:
    def __init__(self, environment):
        self.environment = environment

    def rollout(self, policy, explore=True, epsilon=0.3, limit=400):
        experiences, state, done = [], self.environment.reset(), False
        while not done and len(experiences) < limit:
            action = policy.action(state, explore, epsilon)
            following, reward, done = self.environment.step(action)
            experiences.append((state, action, reward, following))
            state = following
        return experiences


def update(policy, experiences, rate=0.5, discount=0.9):
    for state, action, reward, following in reversed(experiences):
        best = max(policy.table[following])
        policy.table[state][action] += rate * (reward + discount * best - policy.table[state][action])
    return policy


stored = ray.put(Environment())


@ray.remote
class SimulationActor(Simulation):
    def __init__(self):
        super().__init__(ray.get(stored))


@ray.remote
def make_policy():
    return Policy()


@ray.remote
def update_task(policy, experiences):
    for part in ray.get(experiences):
        policy = update(policy, part)
    return policy


simulations = [SimulationActor.remote() for _ in range(2)]
policy = make_policy.remote()
for _ in range(60):
    policy = update_task.remote(policy, [simulation.rollout.remote(policy, epsilon=0.5) for simulation in simulations])
trained = ray.get(policy)
steps = [len(Simulation(Environment()).rollout(trained, explore=False)) for _ in range(10)]
print(sum(steps) / len(steps), "steps")

# prints:
# 8.0 steps
