"""Traffic through updates, scaling, kills and nodes that go: nothing is lost that need not be.

`python -m benchmarks.serve_faults` is the long form of this, with more traffic and more kills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kernel_serve.errors import NotServingError
from kernel_serve.routing.router import dispatchers_of_process
from kernel_serve.testing.load import RequestLoad

from kernel import serve
from kernel.testing.faults import wait_until
from plugins.serve.tests import scenes

Place = scenes.Site
SECONDS = scenes.SECONDS


@pytest.fixture(scope="class")
def place() -> Iterator[Place]:
    """An application on one node, with a head apart and durable metadata."""
    with scenes.site(death_seconds=SECONDS) as site:
        yield site


def traffic(place: Place, happens: Callable[[Place], None]) -> RequestLoad:
    """Return what came of traffic while something happened; whatever is failure to a user fails the test."""
    options = {"patience": SECONDS, "at_once": 100}
    with RequestLoad(place.addresses, 100.0, call=place.handle.remote, calls=25.0, **options) as load:
        load.await_more(30)
        place.await_answers = load.await_answers
        happens(place)
        load.await_more(60)
    assert not load.http.failed, load.http.examples
    assert not load.handle.failed, load.handle.examples
    assert load.http.sent == load.http.answered + load.http.unavailable + load.http.broken
    assert load.handle.sent == load.handle.answered
    return load


class TestOneNode:
    """Only what a killed process had may be answered by 503, and only a killed proxy breaks connections."""

    @pytest.mark.parametrize(
        "happens",
        [
            scenes.update, scenes.bad_update, scenes.sick_update, scenes.scale, scenes.change_options,
            scenes.kill_controller, scenes.kill_head,
        ],
    )  # fmt: skip
    def test_nothing_is_lost_through(self, place: Place, happens: Callable[[Place], None]) -> None:
        place.deploy("1", num_replicas=2)
        load = traffic(place, happens)
        assert (load.http.unavailable, load.http.broken, load.http.reconnected) == (0, 0, 0)

    @pytest.mark.parametrize("happens", [scenes.kill_replicas, scenes.kill_last_replica])
    def test_what_a_killed_replica_had_is_repeated_or_refused_clearly(
        self, place: Place, happens: Callable[[Place], None]
    ) -> None:
        place.deploy("1", num_replicas=2)
        load = traffic(place, happens)
        assert (load.http.broken, load.http.reconnected) == (0, 0)
        assert load.http.unavailable <= scenes.KILLS * max(2, load.most_posting)

    def test_a_killed_proxy_breaks_connections_and_comes_back_where_it_was(self, place: Place) -> None:
        before = place.addresses
        load = traffic(place, lambda place: scenes.kill_proxy(place, (0.0,)))
        assert place.addresses == before
        assert load.http.unavailable == 0

    def test_routers_forget_what_is_deleted_and_find_it_when_it_is_there_again(self, place: Place) -> None:
        for _ in range(2):
            handle = serve.run(scenes.echo(num_replicas=1), name="side", route_prefix="/side")
            assert handle.value.remote("x").result(SECONDS) == "x"
            assert "side#Echo" in dispatchers_of_process()
            serve.delete("side")
            wait_until(lambda: "side#Echo" not in dispatchers_of_process(), SECONDS, "forgetting")
        with pytest.raises(NotServingError, match="there is no deployment 'Echo' in an application 'side'"):
            handle.value.remote("x").result(SECONDS)


@pytest.fixture(scope="class")
def nodes() -> Iterator[Place]:
    """An application whose replicas are on three nodes besides the head's."""
    with scenes.site(3, death_seconds=SECONDS) as site:
        yield site


class TestNodes:
    """Clients know the proxies of all nodes, as a load balancer would."""

    def test_a_drained_node_loses_nothing(self, nodes: Place) -> None:
        load = traffic(nodes, scenes.drain_node)
        assert (load.http.unavailable, load.http.broken) == (0, 0)

    def test_of_a_lost_node_only_its_connections_break(self, nodes: Place) -> None:
        nodes.nodes = nodes.nodes[1:]
        victim = nodes.nodes[0].id
        before = {row["node_id"] for row in nodes.proxies()}
        load = traffic(nodes, scenes.kill_node)
        assert victim in before and {row["node_id"] for row in nodes.proxies()} == before - {victim}
        assert victim not in {row["node_id"] for row in nodes.replicas()}
        lost = load.http.broken + load.http.unavailable
        assert lost <= max(10, 2 * load.most_posting), "more POSTs than a second has, or were under way at both ends"
