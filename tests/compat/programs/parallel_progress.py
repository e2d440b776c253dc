"""Progress bars from tasks."""

import ray
from ray.experimental.tqdm_ray import tqdm

ray.init()


@ray.remote
def work(count):
    bar = tqdm(total=count, desc="work")
    for _ in range(count):
        bar.update(1)
    bar.close()
    return count


print(ray.get([work.remote(3), work.remote(4)]), sum(tqdm(range(4))))

# prints:
# [3, 4] 6
