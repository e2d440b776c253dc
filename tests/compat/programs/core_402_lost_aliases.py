"""CORE-402, CORE-403, V022-040, V022-041: what a round trip keeps of lists that hold each other."""

import ray

ray.init()

inner = []
outer = [inner, inner]
assert outer[0] is outer[1]
again = ray.get(ray.put(outer))
assert again == outer and again is not outer

endless = []
endless.append(endless)
try:
    back = ray.get(ray.put(endless))
    print("itself again" if back[0] is back else "lost")
except Exception as error:
    print(error)

# prints:
# itself again
