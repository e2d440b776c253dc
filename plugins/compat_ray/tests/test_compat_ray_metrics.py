"""`ray.util.metrics` counts, by Ray's rules, and what is counted is read as the kernel's metrics are."""

from __future__ import annotations

import pytest
from kernel_compat_ray.metrics import Counter, Gauge, Histogram

import kernel


def values(name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by those of its tags."""
    return {tuple(row["tags"].values()): row["value"] for row in kernel.metrics.collect(name)}


def test_an_actor_counts_as_the_guide_shows() -> None:
    @kernel.remote
    class Worker:
        def __init__(self, name: str) -> None:
            self.counter = Counter("ray_num_requests", description="Requests.", tag_keys=("actor_name", "kind"))
            self.counter.set_default_tags({"actor_name": name})
            self.gauge = Gauge("ray.curr-count", description="Now.", tag_keys=("actor_name",))
            self.gauge.set_default_tags({"actor_name": name})
            self.latency = Histogram("ray_latency", description="Latency.", boundaries=[10, 1])

        def process(self, number: int) -> None:
            self.counter.inc()
            self.counter.inc(2, {"kind": "x"})
            self.gauge.set(number)
            self.gauge.set(None)
            self.latency.observe(number)

    with kernel.init(num_cpus=1):
        workers = [Worker.remote(name) for name in ("one", "other")]
        kernel.get([worker.process.remote(5) for worker in workers])
        assert values("ray_num_requests") == {
            (name, kind): number for name in ("one", "other") for kind, number in (("", 1), ("x", 2))
        }
        assert values("ray_curr_count") == {("one",): 5, ("other",): 5}
        (row,) = kernel.metrics.collect("ray_latency")
        assert list(row["buckets"].items())[:2] == [(1, 0), (10, 2)]


def test_one_is_given_to_a_task() -> None:
    seen = Counter("ray_seen", tag_keys=("where",))
    seen.set_default_tags({"where": "there"})

    @kernel.remote
    def see(counter: Counter) -> None:
        counter.inc()

    with kernel.init(num_cpus=1):
        kernel.get(see.remote(seen))
        assert seen.info == {
            "name": "ray_seen",
            "description": "",
            "tag_keys": ("where",),
            "default_tags": {"where": "there"},
        }
        assert values("ray_seen") == {("there",): 1}


def test_what_ray_refuses_is_refused() -> None:
    counter = Counter("ray_refused", tag_keys=("a",))
    with pytest.raises(ValueError, match="grows by more than zero, not by 0"):
        counter.inc(0)
    with pytest.raises(ValueError, match="metric 'ray_refused' has no tag 'b'; its tags are a"):
        counter.inc(tags={"b": "x"})
    with pytest.raises(TypeError, match="tag 'a' of metric 'ray_refused' is a text, not 5"):
        counter.inc(tags={"a": 5})
    with pytest.raises(TypeError, match="tag_keys must be a tuple of strings, not 'a'"):
        Counter("ray_other", tag_keys="a")
    with pytest.raises(ValueError, match="a metric needs a name"):
        Gauge("")
    with pytest.raises(ValueError, match="'ray_sizes' needs boundaries above zero"):
        Histogram("ray_sizes", boundaries=[0, 1])
