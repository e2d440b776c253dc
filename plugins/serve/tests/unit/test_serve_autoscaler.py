"""The autoscaler of one deployment: bounds, delays, factors, zero, own policies, and its memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kernel_serve.autoscaling import Autoscaler, AutoscalingContext, RouterReports, load_policy
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AutoscalingConfig
from kernel_serve.values import RouterReport


class Run:
    """An autoscaler that is asked each second, and does what it says."""

    def __init__(self, target: int | None = None, **settings: Any) -> None:
        self.autoscaler = Autoscaler(AutoscalingConfig(**settings), "app#deployment")
        self.target = self.autoscaler.initial() if target is None else target
        self.now = 1000.0

    def seconds(self, count: int, queued: int = 0, ongoing: int = 0, **told: Any) -> list[int]:
        """Go on for so many seconds with so many requests, and return the targets."""
        targets = []
        for _ in range(count):
            self.now += 1
            self.autoscaler.observe(self.now, queued, ongoing)
            self.target = self.autoscaler.decide(self.now, self.target, self.target, **told)
            targets.append(self.target)
        return targets


QUICK = {"look_back_period_s": 1.0, "upscale_delay_s": 0.0, "downscale_delay_s": 0.0}


def test_each_replica_gets_its_share_of_the_requests() -> None:
    run = Run(min_replicas=1, max_replicas=10, target_ongoing_requests=2, **QUICK)
    assert run.seconds(3, queued=3, ongoing=5)[-1] == 4


def test_waiting_requests_count_as_those_that_are_worked_on() -> None:
    run = Run(min_replicas=1, max_replicas=10, target_ongoing_requests=2, **QUICK)
    assert run.seconds(3, queued=8)[-1] == 4


def test_there_are_never_more_than_the_most_nor_fewer_than_the_least() -> None:
    run = Run(min_replicas=2, max_replicas=5, **QUICK)
    assert set(run.seconds(20)) == {2}
    assert run.seconds(5, queued=1000)[-1] == 5


def test_without_requests_nothing_is_added() -> None:
    run = Run(min_replicas=1, max_replicas=100, **QUICK)
    assert set(run.seconds(500)) == {1}


def test_a_few_requests_too_many_add_no_replica() -> None:
    run = Run(target=10, min_replicas=1, max_replicas=100, target_ongoing_requests=10, **QUICK)
    assert set(run.seconds(20, ongoing=104)) == {10}
    assert run.seconds(5, ongoing=106)[-1] == 11


def test_more_replicas_come_when_more_were_wanted_for_the_whole_delay() -> None:
    run = Run(min_replicas=1, max_replicas=10, look_back_period_s=1, upscale_delay_s=10)
    assert run.seconds(10, ongoing=8) == [1] * 10
    assert run.seconds(1, ongoing=8) == [4]


def test_a_moment_with_less_begins_the_delay_anew() -> None:
    run = Run(min_replicas=1, max_replicas=10, look_back_period_s=1, upscale_delay_s=10)
    run.seconds(8, ongoing=8)
    run.seconds(2, ongoing=1)
    assert run.seconds(8, ongoing=8)[-1] == 1


def test_fewer_replicas_remain_after_the_delay_as_many_as_were_wanted_at_most() -> None:
    run = Run(target=8, min_replicas=1, max_replicas=10, look_back_period_s=1, downscale_delay_s=20)
    run.seconds(10, ongoing=10)
    run.seconds(10, ongoing=2)
    assert run.target == 8
    assert run.seconds(3, ongoing=2)[-1] == 5
    assert run.seconds(20, ongoing=2)[-1] == 1


def test_factors_shorten_and_lengthen_steps() -> None:
    half = Run(target=2, min_replicas=1, max_replicas=50, upscaling_factor=0.5, **QUICK)
    assert half.seconds(1, ongoing=20) == [6]
    double = Run(target=2, min_replicas=1, max_replicas=50, upscaling_factor=2, **QUICK)
    assert double.seconds(1, ongoing=20) == [18]
    slow = Run(
        target=10, min_replicas=1, max_replicas=50, downscaling_factor=0.5, look_back_period_s=1, downscale_delay_s=5
    )
    assert slow.seconds(40, ongoing=4) == [10] * 5 + [6] * 5 + [4] * 5 + [3] * 5 + [2] * 20


def test_it_begins_with_the_initial_number() -> None:
    assert Run(min_replicas=1, max_replicas=5).target == 1
    assert Run(min_replicas=0, max_replicas=5).target == 0
    run = Run(min_replicas=1, max_replicas=5, initial_replicas=3, look_back_period_s=5, downscale_delay_s=30)
    assert run.seconds(30) == [3] * 30
    assert run.seconds(2)[-1] == 1


def test_the_first_request_wakes_a_deployment_at_once() -> None:
    run = Run(min_replicas=0, max_replicas=5)
    assert set(run.seconds(100)) == {0}
    assert run.seconds(1, queued=1) == [1]
    assert set(run.seconds(30, ongoing=1)) == {1}


def test_the_last_replica_goes_after_its_own_delay_without_requests() -> None:
    run = Run(min_replicas=0, max_replicas=5, downscale_delay_s=600, downscale_to_zero_delay_s=15)
    run.seconds(40, queued=0, ongoing=1)
    assert run.target == 0, "nothing waited"
    run.seconds(1, queued=1)
    run.seconds(40, ongoing=1)
    assert run.seconds(15)[-1] == 1
    assert run.seconds(2)[-1] == 0


def test_a_replica_that_works_is_never_the_last_to_go() -> None:
    run = Run(target=1, min_replicas=0, max_replicas=5, policy=lambda context: 0, **QUICK)
    assert set(run.seconds(100, ongoing=1)) == {1}
    assert run.seconds(3)[-1] == 0


def test_a_deployment_goes_to_zero_over_its_last_replica() -> None:
    run = Run(
        target=4, min_replicas=0, max_replicas=5,
        look_back_period_s=5, downscale_delay_s=10, downscale_to_zero_delay_s=60,
    )  # fmt: skip
    run.seconds(20, ongoing=8)
    targets = run.seconds(70)
    assert targets == sorted(targets, reverse=True)
    assert targets.count(1) > 30 and targets[-1] == 0


def test_bounds_hold_at_once_when_they_change() -> None:
    run = Run(min_replicas=1, max_replicas=10)
    run.seconds(5)
    run.autoscaler.update(AutoscalingConfig(min_replicas=3, max_replicas=10))
    assert run.seconds(1) == [3]
    run.autoscaler.update(AutoscalingConfig(min_replicas=1, max_replicas=2))
    assert run.seconds(1) == [2]


def test_there_are_no_more_than_there_is_room_for() -> None:
    run = Run(min_replicas=1, max_replicas=10, **QUICK)
    assert run.seconds(5, queued=100, capacity=4)[-1] == 4


def test_numbers_that_nobody_repeats_do_not_count_for_ever() -> None:
    run = Run(min_replicas=1, max_replicas=10, look_back_period_s=30, upscale_delay_s=10)
    run.seconds(5, queued=50)
    targets = []
    for _ in range(100):
        run.now += 1
        run.target = run.autoscaler.decide(run.now, run.target, run.target)
        targets.append(run.target)
    assert set(targets) == {1}
    assert "no numbers of requests are known" in run.autoscaler.explanation(run.now, 1)


def test_a_clock_that_was_set_back_begins_anew() -> None:
    run = Run(min_replicas=1, max_replicas=10, **QUICK)
    run.seconds(20, ongoing=8)
    run.now -= 1000
    assert set(run.seconds(20, ongoing=8)) == {4}


def another_life(run: Run, seconds: float = 3.0, clock: float = 500.0) -> Run:
    """Return the same `seconds` later in a process whose clock shows another time, with what was saved."""
    after = Run(run.target)
    after.autoscaler = Autoscaler(run.autoscaler.settings, run.autoscaler.name)
    after.now = run.now + seconds - clock
    after.autoscaler.restore(run.autoscaler.saved(0.0), after.now, clock)
    return after


@pytest.mark.parametrize("look_back", [1.0, 20.0])
def test_another_life_has_no_fewer_replicas_before_the_period_of_looking_back_is_known(look_back: float) -> None:
    settings = {"look_back_period_s": look_back, "upscale_delay_s": 0.0, "downscale_delay_s": 0.0}
    run = Run(min_replicas=1, max_replicas=10, **settings)
    run.seconds(30, ongoing=16)
    assert run.target == 8
    after = another_life(run)
    begun = after.now
    while after.seconds(1)[-1] == 8:  # the routers that report first have no requests
        pass
    assert after.target == 1 and after.now - begun == 5.0 + look_back


def test_another_life_may_have_more_replicas_at_once() -> None:
    run = Run(min_replicas=1, max_replicas=10, target_ongoing_requests=2, **QUICK)
    run.seconds(10, ongoing=4)
    assert another_life(run).seconds(1, ongoing=12) == [6]


def test_in_another_life_a_delay_begins_again() -> None:
    run = Run(target=4, min_replicas=1, max_replicas=10, look_back_period_s=1, downscale_delay_s=20)
    run.seconds(19, ongoing=2)
    after = another_life(run)
    assert after.seconds(20, ongoing=2) == [4] * 20 and after.seconds(1, ongoing=2) == [1]


def test_another_life_knows_how_the_deployment_has_swung() -> None:
    settings = {"min_replicas": 1, "max_replicas": 20, "look_back_period_s": 10, "downscale_delay_s": 0}
    run = Run(target=10, upscale_delay_s=0, **settings)
    for ongoing in (20, 18, 20, 18, 20):
        run.seconds(60, ongoing=ongoing)
    assert run.target == 10
    after, fresh = another_life(run), Run(target=10, **settings)
    assert fresh.seconds(15, ongoing=18)[-1] == 9
    assert after.seconds(15, ongoing=18)[-1] == 10, "it waits longer before it goes down by one once more"
    assert after.seconds(15, ongoing=18)[-1] == 9


def test_what_never_swung_needs_nothing_to_be_kept() -> None:
    run = Run(min_replicas=1, max_replicas=10, upscale_delay_s=10)
    run.seconds(50, ongoing=8)
    assert run.autoscaler.saved(0.0) == {}


def test_it_says_why_there_are_so_many() -> None:
    run = Run(min_replicas=1, max_replicas=10, look_back_period_s=1, upscale_delay_s=30)
    run.seconds(11, queued=2, ongoing=6)
    assert run.autoscaler.explanation(run.now, run.target) == (
        "2.0 requests wait and 6.0 are worked on: 4 are wanted since 10 of 30 s"
    )


# -- own policies --------------------------------------------------------------------------------------------------


def by_hour(context: AutoscalingContext, day: int = 1) -> int:
    """Want some in the first hundred seconds, and one after it."""
    return day if context.now < 1100 else 1


class Counting:
    """Wants one more each time."""

    def __init__(self, start: int) -> None:
        self.count = start

    def __call__(self, context: AutoscalingContext) -> int:
        self.count += 1
        return self.count


def test_a_function_decides_within_the_bounds() -> None:
    run = Run(min_replicas=1, max_replicas=5, policy=by_hour, policy_arguments={"day": 99}, **QUICK)
    assert run.seconds(10)[-1] == 5
    assert run.seconds(120)[-1] == 1


def test_a_policy_is_found_by_its_import_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "policies_of_mine.py").write_text("def three(context):\n    return 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for path in ("policies_of_mine:three", "policies_of_mine.three"):
        assert Run(min_replicas=1, max_replicas=5, policy=path, **QUICK).seconds(2)[-1] == 3


def test_a_class_is_constructed_with_the_arguments() -> None:
    run = Run(min_replicas=1, max_replicas=50, policy=Counting, policy_arguments={"start": 4}, **QUICK)
    assert run.seconds(3) == [5, 6, 7]


def test_a_policy_may_keep_a_state() -> None:
    def growing(context: AutoscalingContext) -> tuple[int, dict[str, int]]:
        number = context.state.get("number", 0) + 1
        return number, {"number": number}

    run = Run(min_replicas=1, max_replicas=50, policy=growing, **QUICK)
    assert run.seconds(3) == [1, 2, 3]
    after = another_life(run)
    assert after.seconds(3) == [4, 5, 6]


def test_a_state_that_can_not_travel_is_only_lost() -> None:
    def with_lock(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        return 2, {"lock": threading.Lock(), "asked": context.state.get("asked", 0) + 1}

    run = Run(min_replicas=1, max_replicas=5, policy=with_lock, **QUICK)
    run.seconds(3)
    assert run.autoscaler.saved(0.0) == {} and not run.autoscaler.trouble
    after = another_life(run)
    after.autoscaler.restore({"policy_state": b"nonsense"}, after.now, 0.0)
    assert after.seconds(2) == [2, 2]


def test_a_policy_sees_replicas_and_metrics() -> None:
    seen: list[AutoscalingContext] = []

    def looking(context: AutoscalingContext) -> int:
        seen.append(context)
        return 2

    run = Run(min_replicas=1, max_replicas=4, policy=looking, **QUICK)
    run.seconds(1, queued=1, ongoing=4, replicas={"a": 4}, metrics={"a": {"tokens": 9}}, capacity=3)
    (context,) = seen
    assert (context.replicas, context.metrics, context.max_replicas) == ({"a": 4}, {"a": {"tokens": 9}}, 3)
    assert (context.queued_now, context.ongoing_now, context.requests, context.current_target) == (1, 4, 5.0, 1)


@pytest.mark.parametrize(
    ("policy", "trouble"),
    [
        (lambda context: 1 // 0, "the policy raised ZeroDivisionError: integer division or modulo by zero"),
        (lambda context: None, "the policy returned None; expected a number of replicas from 0 on"),
        (lambda context: float("nan"), "the policy returned nan; expected a number of"),
        (lambda context: -1, "the policy returned -1; expected a number of"),
        ("no_such_module:policy", "the autoscaling policy 'no_such_module:policy' can't be imported where"),
        ("nonsense", "the autoscaling policy 'nonsense' is no import path; write it as \"module:function\""),
        (7, 'the autoscaling policy is a function, or its import path as "module:function", not 7'),
    ],
)
def test_a_policy_that_fails_changes_nothing_and_is_told(policy: Any, trouble: str) -> None:
    run = Run(target=3, min_replicas=1, max_replicas=5, policy=policy, **QUICK)
    assert set(run.seconds(100, ongoing=100)) == {3}
    assert run.autoscaler.trouble.startswith(trouble)
    assert run.autoscaler.explanation(run.now, 3).startswith(f"stays at 3: {trouble}")


def test_a_policy_that_fails_does_not_leave_requests_waiting_for_ever() -> None:
    run = Run(min_replicas=0, max_replicas=5, policy="no_such_module:policy")
    assert run.seconds(1, queued=1) == [1]


def test_a_policy_that_works_again_is_no_trouble() -> None:
    broken = [True]

    def now_and_then(context: AutoscalingContext) -> int:
        if broken:
            raise ValueError("not yet")
        return 2

    run = Run(min_replicas=1, max_replicas=5, policy=now_and_then, **QUICK)
    run.seconds(3)
    assert run.autoscaler.trouble == "the policy raised ValueError: not yet"
    broken.clear()
    assert run.seconds(1) == [2] and not run.autoscaler.trouble


def test_a_policy_that_can_not_be_loaded_is_refused_when_it_is_checked() -> None:
    with pytest.raises(DeploymentError, match="can't be imported where the controller runs: ModuleNotFoundError"):
        load_policy(AutoscalingConfig(policy="no_such_module:policy"))


# -- reports -------------------------------------------------------------------------------------------------------


def report(router: str, queued: int, node: str = "a", **ongoing: int) -> RouterReport:
    """Return a router's report on the deployment `app#d`."""
    return RouterReport(router, node, {"app#d": queued}, {"app#d": ongoing})


def test_reports_of_all_routers_are_added_up() -> None:
    reports = RouterReports(0.0)
    reports.take(1.0, report("one", 2, x=1, y=2))
    reports.take(1.5, report("two", 1, x=4))
    load = reports.load(2.0, "app#d")
    assert load is not None and (load.queued, load.ongoing, load.replicas) == (3, 7, {"x": 5, "y": 2})
    assert reports.load(2.0, "app#d", alive={"y"}).ongoing == 2  # type: ignore[union-attr]
    assert reports.load(2.0, "app#other").queued == 0  # type: ignore[union-attr]


def test_a_router_that_died_counts_no_longer() -> None:
    reports = RouterReports(0.0, patience=5)
    reports.take(1.0, report("one", 50, x=9))
    assert reports.load(6.0, "app#d").queued == 50  # type: ignore[union-attr]
    assert reports.load(6.1, "app#d").queued == 0  # type: ignore[union-attr]


def test_a_new_controller_waits_for_reports_before_it_believes_that_there_are_no_requests() -> None:
    reports = RouterReports(100.0, patience=5)
    assert reports.load(101.0, "app#d") is None
    assert reports.load(105.0, "app#d") is not None
