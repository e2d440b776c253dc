"""The controller as an actor, with replicas and proxies that serve nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_serve.control import controller as controller_module
from kernel_serve.control import views
from kernel_serve.control.controller import Controller
from kernel_serve.errors import DeploymentError, ServeError
from kernel_serve.settings import AutoscalingConfig, GRPCOptions, HTTPOptions
from kernel_serve.testing.controllers import SECONDS, TestedController
from kernel_serve.testing.stand_ins import StandInProxy, StandInReplica
from kernel_serve.testing.world import application, settings
from kernel_serve.values import ENDPOINTS, ReplicaSet, RouterReport

import kernel
from kernel.metrics.registry import MetricRegistry
from kernel.testing.faults import wait_until


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


@pytest.fixture
def controller(session: None) -> Iterator[TestedController]:
    tested = TestedController(StandInReplica, StandInProxy)
    yield tested
    tested.end()
    assert kernel.KeyValue("kernel_serve").keys() == []


def app(version: str = "1", replicas: int = 1, **words: Any) -> Any:
    return application(version=version, main=settings(num_replicas=replicas, user_config=words))


class TestReplicas:
    def test_they_start_change_and_go(self, controller: TestedController) -> None:
        controller.deploy(app(replicas=3))
        first = controller.numbers()
        assert len({each["pid"] for each in first}) == 3
        controller.deploy(app(replicas=2, color="red"))
        second = controller.numbers()
        assert {each["pid"] for each in second} < {each["pid"] for each in first}
        assert [each["words"] for each in second] == [{"color": "red"}] * 2
        controller.deploy(app("2"))
        wait_until(lambda: controller.view()["replica_states"] == {"RUNNING": 1}, SECONDS, "one replica")
        assert [each["version"] for each in controller.numbers()] == ["2"]
        controller.ask("delete", ["app"])
        controller.wait("app", "NOT_STARTED")
        wait_until(lambda: controller.actors() == ["serve controller"], SECONDS, "the end of the replicas")
        assert not controller.replica_set().exists

    def test_who_waits_is_told_of_no_status_whose_routes_are_not_published(
        self, session: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # this process is no part of Serve from now on
        monkeypatch.setattr(controller_module, "REGISTRY", MetricRegistry())

        async def wait() -> tuple[dict[str, Any], tuple[str, ReplicaSet]]:
            tested = Controller(StandInReplica, StandInProxy)
            write, may_write = tested._memory.write, threading.Event()

            def write_late(*arguments: Any) -> None:
                if views.status_of(tested._state, "app", 0.0)[0] == "RUNNING":
                    may_write.wait(SECONDS)
                write(*arguments)

            tested._memory.write = write_late  # type: ignore[method-assign]
            await tested.deploy([app()])
            while views.status_of(tested._state, "app", 0.0)[0] != "RUNNING":
                await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(tested.wait_until("app", ["RUNNING"]))
            await asyncio.wait([waiting], timeout=0.2)
            may_write.set()
            found, published = await waiting, await tested.watch({"app#main": None})
            await tested.shutdown()
            return found, published["app#main"]

        found, (version, replica_set) = asyncio.run(wait())
        assert len(replica_set.replicas) == 1 and found["status"] == "RUNNING"
        assert found["versions"]["app#main"] == version

    def test_one_that_is_killed_is_replaced_at_once(self, controller: TestedController) -> None:
        controller.deploy(app(replicas=2))
        victim, other = (each["pid"] for each in controller.numbers())
        os.kill(victim, signal.SIGKILL)
        assert other in controller.await_pids(2, without=victim)
        controller.wait("app", "RUNNING")

    def test_a_bad_version_goes_back_and_says_why(self, controller: TestedController) -> None:
        controller.deploy(app(replicas=2))
        before = controller.numbers()
        controller.ask("deploy", [app("2", replicas=2, raises="no weights in /models")])
        message = controller.wait("app", "DEPLOY_FAILED")
        assert message.splitlines()[-1] == "ValueError: no weights in /models"
        assert 'File "/home/me/model.py", line 2, in construct' in message
        assert "kernel_serve" not in message
        wait_until(lambda: controller.view()["replica_states"] == {"RUNNING": 2}, SECONDS, "those of before")
        assert controller.numbers() == before

    def test_a_first_version_that_fails_is_tried_again(self, controller: TestedController, tmp_path: Path) -> None:
        flag = tmp_path / "flag"
        controller.ask("deploy", [app(raises_until=str(flag))])
        assert "ValueError: not yet" in controller.wait("app", "DEPLOY_FAILED")
        assert "not yet" in controller.replica_set().message
        flag.touch()
        controller.wait("app", "RUNNING")

    def test_one_that_is_sick_is_replaced(self, controller: TestedController, tmp_path: Path) -> None:
        flag = tmp_path / "sick"
        values = settings(user_config={"sick": str(flag)}, health_check_period_s=0.05)
        controller.deploy(application(main=values))
        (before,) = controller.numbers()
        flag.touch()
        wait_until(lambda: controller.view()["status"] != "HEALTHY", SECONDS, "a replica that is unhealthy")
        flag.unlink()
        controller.wait("app", "RUNNING")
        (after,) = controller.numbers()
        assert after["pid"] != before["pid"]

    def test_what_has_no_room_says_what_it_waits_for(self, controller: TestedController) -> None:
        controller.deploy(app())
        values = settings(actor_options={"resources": {"unicorn": 1}})
        controller.ask("deploy", [application("wide", "/wide", main=values)])
        wait_until(lambda: "unicorn" in controller.replica_set("wide#main").message, SECONDS, "a reason")
        assert "unicorn" in controller.ask("status")["applications"]["wide"]["message"]
        kernel.set_resource("unicorn", 1)
        controller.wait("wide", "RUNNING")

    def test_without_room_for_two_the_old_one_goes_first(self, controller: TestedController) -> None:
        kernel.set_resource("seat", 1)
        values = settings(actor_options={"resources": {"seat": 1}, "num_cpus": 0})
        controller.deploy(application(main=values))
        controller.deploy(application(version="2", main=values))
        assert [each["version"] for each in controller.numbers()] == ["2"]

    def test_placement_groups_come_and_go_with_them(self, controller: TestedController) -> None:
        values = settings(placement_group_bundles=({"CPU": 0.1}, {"CPU": 0.1}), actor_options={"num_cpus": 0.1})
        controller.deploy(application(main=values))
        living = [each for each in kernel.placement_group_table().values() if each["state"] == "CREATED"]
        assert len(living) == 1
        controller.ask("delete", ["app"])
        controller.wait("app", "NOT_STARTED")
        assert [each for each in kernel.placement_group_table().values() if each["state"] == "CREATED"] == []

    def test_no_node_has_more_than_it_may(self, controller: TestedController) -> None:
        controller.ask("deploy", [application(main=settings(num_replicas=2, max_replicas_per_node=1))])
        wait_until(lambda: controller.view()["replica_states"].get("RUNNING") == 1, SECONDS, "one replica")
        wait_until(lambda: "max_replicas_per_node" in controller.view()["message"], SECONDS, "a reason")
        assert controller.view()["replica_states"] == {"RUNNING": 1, "STARTING": 1}
        assert len([name for name in controller.actors() if name.startswith("serve replica ")]) == 1

    def test_options_that_there_are_not_fail_the_deployment(self, controller: TestedController) -> None:
        controller.ask("deploy", [application(main=settings(actor_options={"num_cpu": 1}))])
        assert "did you mean 'num_cpus'?" in controller.wait("app", "DEPLOY_FAILED")

    def test_what_can_t_be_is_refused(self, controller: TestedController) -> None:
        controller.deploy(app())
        with pytest.raises(DeploymentError, match="'b' can't have the route prefix '/'"):
            controller.ask("deploy", [application("b")])
        assert controller.ask("delete", ["apq"]) == ["there is no application 'apq'; did you mean 'app'?"]


class TestRouters:
    def test_news_come_when_there_is_any(self, controller: TestedController) -> None:
        found = controller.ask("watch", {ENDPOINTS: None, "app#main": None})
        assert found[ENDPOINTS][1] == ()
        assert "there is no deployment 'main' in an application 'app'" in found["app#main"][1].message
        known = {topic: version for topic, (version, _) in found.items()}
        asked = controller.handle.watch.remote(known)
        assert kernel.wait([asked], timeout=0.2)[0] == []
        controller.ask("deploy", [app(start_seconds=0.3)])
        assert kernel.get(asked, timeout=SECONDS)
        controller.wait("app", "RUNNING")
        (replica,) = controller.replica_set().replicas
        assert (replica.socket, replica.node) == (f"socket of {replica.id}", kernel.nodes()[0]["NodeID"])

    def test_a_deployment_without_replicas_wakes_for_a_request(self, controller: TestedController) -> None:
        config = AutoscalingConfig(min_replicas=0, max_replicas=2, upscale_delay_s=10 * SECONDS)
        controller.deploy(application(main=settings(num_replicas=None, autoscaling=config)))
        assert controller.replica_set().replicas == ()
        controller.ask("report", RouterReport("r", "n", {"app#main": 1}))
        wait_until(lambda: controller.replica_set().replicas, SECONDS, "a replica, without the delay")

    def test_one_that_is_lost_is_looked_at(self, controller: TestedController) -> None:
        controller.deploy(app())
        (replica,) = controller.replica_set().replicas
        controller.ask("lost", "app#main", replica.id, "broken pipe")
        controller.ask("lost", "app#main", "app#main#nobody", "broken pipe")
        assert controller.view()["replica_states"] == {"RUNNING": 1}


class TestProxies:
    def test_they_listen_where_they_are_wanted(self, controller: TestedController) -> None:
        def addresses() -> list[str]:
            return sorted(each["address"] for each in controller.ask("status")["proxies"].values())

        controller.ask("configure_proxies", "EveryNode", HTTPOptions(port=8100, proxies_per_node=2), GRPCOptions())
        assert addresses() == ["127.0.0.1:8100", "127.0.0.1:8101"]
        with pytest.raises(ServeError, match="the proxy can't listen on 127.0.0.1:1"):
            controller.ask("configure_proxies", "HeadOnly", HTTPOptions(port=1), GRPCOptions())
        wait_until(lambda: len(addresses()) == 2, SECONDS, "those of before")
        controller.ask("configure_proxies", None, None, GRPCOptions(port=9100))
        wait_until(lambda: len(addresses()) == 2, SECONDS, "the end of those of before")
        assert addresses() == ["127.0.0.1:8100", "127.0.0.1:8101"], "as it was said before"
        controller.ask("configure_proxies", "Disabled", None, None)
        assert controller.ask("status")["proxy_location"] == "Disabled"

    def test_what_is_not_given_stays_as_it_is(self, controller: TestedController) -> None:
        def shown() -> tuple[Any, ...]:
            status = controller.ask("status")
            (proxy,) = [each for each in status["proxies"].values() if each["status"] == "HEALTHY"]
            return status["proxy_location"], proxy["address"], proxy["grpc_address"], proxy["tls"], proxy["grpc_tls"]

        services = GRPCOptions(port=9100, grpc_servicer_functions=("a:b",), ssl_certfile="c.pem")
        controller.ask("configure_proxies", "HeadOnly", HTTPOptions(port=8200), GRPCOptions())
        assert shown() == ("HeadOnly", "127.0.0.1:8200", "", False, False)
        controller.ask("configure_proxies", None, HTTPOptions(port=8300, ssl_certfile="c.pem"), None)
        assert shown() == ("HeadOnly", "127.0.0.1:8300", "", True, False)
        controller.ask("configure_proxies", None, None, services)
        assert shown() == ("HeadOnly", "127.0.0.1:8300", "127.0.0.1:9100", True, True)
        controller.ask("configure_proxies", "EveryNode", None, None)
        assert shown() == ("EveryNode", "127.0.0.1:8300", "127.0.0.1:9100", True, True)


class TestLives:
    def test_all_goes_on_when_the_controller_is_killed(self, controller: TestedController) -> None:
        controller.ask("configure_proxies", "HeadOnly", HTTPOptions(), GRPCOptions())
        controller.deploy(app(replicas=2, color="red"), application("other", "/other", version="7"))
        before = controller.numbers()
        versions = {topic: found[0] for topic, found in controller.ask("watch", {"app#main": None}).items()}
        proxies = controller.ask("status")["proxies"]
        controller.kill()
        assert controller.numbers() == before
        assert controller.ask("watch", versions) != {}
        assert controller.ask("status")["proxies"] == proxies
        controller.wait("app", "RUNNING")
        controller.deploy(app("2", replicas=2))
        assert [each["version"] for each in controller.numbers()] == ["2", "2"]

    def test_what_died_meanwhile_is_replaced_and_what_was_asked_is_done(self, controller: TestedController) -> None:
        controller.deploy(app(replicas=2))
        victim, other = (each["pid"] for each in controller.numbers())
        os.kill(controller.pid(), signal.SIGKILL)
        os.kill(victim, signal.SIGKILL)
        assert other in controller.await_pids(2, without=victim)

    def test_an_update_is_finished_by_the_next_life(self, controller: TestedController, tmp_path: Path) -> None:
        log = tmp_path / "log"
        controller.deploy(app(replicas=2))
        controller.ask("deploy", [app("2", replicas=2, start_seconds=1.5, log=str(log))])
        wait_until(log.exists, SECONDS, "a replica that starts")
        controller.kill()
        controller.wait("app", "RUNNING")
        wait_until(lambda: controller.view()["replica_states"] == {"RUNNING": 2}, SECONDS, "two replicas")
        assert [each["version"] for each in controller.numbers()] == ["2", "2"]
        assert log.read_text().count("start") == 2

    def test_the_number_of_replicas_stays_until_the_load_is_known_again(self, controller: TestedController) -> None:
        busy, idle = (RouterReport(name, "n", {"app#main": number}) for name, number in (("busy", 3), ("idle", 0)))

        def after_reports(of: RouterReport, condition: Callable[[dict[str, Any]], bool]) -> bool:
            controller.ask("report", of)
            return condition(controller.view())

        self.grow_to_three(controller, busy, look_back=10 * SECONDS)  # so long it stays
        controller.kill()
        controller.ask("report", idle)  # of all routers it is one without requests that comes first
        heard = "0.0 requests wait and 0.0 are worked on: 1 would do"
        wait_until(
            lambda: after_reports(idle, lambda view: view["autoscaling_decision"].startswith(heard)), SECONDS, "news"
        )
        assert controller.view()["target_num_replicas"] == 3
        wait_until(
            lambda: after_reports(busy, lambda view: view["autoscaling_decision"].endswith(": 3 are right")),
            SECONDS, "the load of before",
        )  # fmt: skip
        assert not [line for line in controller.ask("history", "app#main") if "is to have" in line]

    def test_there_are_fewer_replicas_when_the_load_is_not_known_again(self, controller: TestedController) -> None:
        self.grow_to_three(controller, RouterReport("busy", "n", {"app#main": 3}), look_back=1)
        controller.kill()
        wait_until(lambda: controller.view()["target_num_replicas"] == 1, SECONDS, "shrinking without any report")

    @staticmethod
    def grow_to_three(controller: TestedController, busy: RouterReport, look_back: float) -> None:
        config = AutoscalingConfig(
            max_replicas=3, target_ongoing_requests=1, metrics_interval_s=0.1, look_back_period_s=look_back,
            upscale_delay_s=0, downscale_delay_s=0,
        )  # fmt: skip
        controller.deploy(application(main=settings(num_replicas=None, autoscaling=config)))

        def has_grown() -> bool:
            controller.ask("report", busy)
            return bool(controller.view()["replica_states"] == {"RUNNING": 3})  # started: so it is written down, too

        wait_until(has_grown, SECONDS, "growing")

    def test_a_rollback_is_remembered(self, controller: TestedController) -> None:
        controller.deploy(app())
        controller.ask("deploy", [app("2", raises="no weights")])
        message = controller.wait("app", "DEPLOY_FAILED")
        controller.kill()
        assert controller.wait("app", "DEPLOY_FAILED") == message
        assert [each["version"] for each in controller.numbers()] == ["1"]
