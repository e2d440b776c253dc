"""02, lines 5949-6018: words of a stream of texts, by mappers and reducers that stay."""

from collections import Counter

import ray

ray.init()
TEXTS = ["a rose is a rose", "is a rose a flower", "a flower is no rose"]


@ray.remote
class Mapper:
    def __init__(self, texts):
        self.texts, self.counted = iter(texts), []

    def get_new_article(self):
        self.counted.append(Counter(next(self.texts).split()))

    def get_range(self, index, keys):
        while len(self.counted) <= index:
            self.get_new_article()
        low, high = keys
        return [(word, count) for word, count in self.counted[index].items() if low <= word[0] < high]


@ray.remote
class Reducer:
    def __init__(self, keys, *mappers):
        self.keys, self.mappers = keys, mappers

    def next_reduce_result(self, index):
        total = Counter()
        for part in ray.get([mapper.get_range.remote(index, self.keys) for mapper in self.mappers]):
            for word, count in part:
                total[word] += count
        return total


mappers = [Mapper.remote(TEXTS[i:] + TEXTS[:i]) for i in range(3)]
reducers = [Reducer.remote(keys, *mappers) for keys in (("a", "g"), ("g", "n"), ("n", "~"))]
for index in range(2):
    counts = Counter()
    for part in ray.get([reducer.next_reduce_result.remote(index) for reducer in reducers]):
        counts.update(part)
    print(index, sorted(counts.items()))

# prints:
# 0 [('a', 5), ('flower', 2), ('is', 3), ('no', 1), ('rose', 4)]
# 1 [('a', 5), ('flower', 2), ('is', 3), ('no', 1), ('rose', 4)]
