"""Two hundred traces of requests against the autoscaler: what must hold whatever comes."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from kernel_serve.autoscaling import Autoscaler
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AutoscalingConfig
from kernel_serve.testing.arrivals import arrival_times
from kernel_serve.testing.traces import Arrivals, Trace, TraceOutcome, play, trace_of

SHAPES = ("steady", "step up", "step down", "ramp", "wave", "spikes", "on and off", "silence", "one burst", "sparse")
TRACES = 200
DURATION = 1200.0


def parts(shape: str, draw: random.Random) -> tuple[Arrivals, ...]:
    """Return the arrivals of a trace of this shape."""
    low, high = draw.uniform(0.5, 2), draw.uniform(3, 9)
    some_time = draw.uniform(200, 800)
    match shape:
        case "steady":
            return (Arrivals(rate=high),)
        case "step up":
            return (Arrivals(rate=low, until=some_time), Arrivals(rate=high, start=some_time))
        case "step down":
            return (Arrivals(rate=high, until=some_time), Arrivals(rate=low, start=some_time))
        case "ramp":
            return (Arrivals(rate=[0, high], until=some_time), Arrivals(rate=[high, 0], start=some_time))
        case "wave":
            return (Arrivals(rate=[0, high], period=draw.uniform(200, 1200)),)
        case "spikes":
            spikes = (Arrivals(at=draw.uniform(0, DURATION), requests=draw.randint(1, 100)) for _ in range(5))
            return (Arrivals(rate=low), *spikes)
        case "on and off":
            length = draw.uniform(30, 200)
            starts = range(0, int(DURATION), int(2 * length))
            return tuple(Arrivals(start=start, until=start + length, rate=high) for start in starts)
        case "one burst":
            return (Arrivals(at=some_time, requests=draw.randint(1, 300)),)
        case "sparse":
            return (Arrivals(rate=draw.uniform(0.002, 0.05)),)
        case _:
            return ()


def case(number: int) -> tuple[str, Trace, AutoscalingConfig]:
    """Return the shape, the trace and the settings of this number."""
    draw = random.Random(number)
    shape = SHAPES[number % len(SHAPES)]
    target = draw.choice([1, 2, 4])
    least = draw.choice([0, 0, 1, 3])
    trace = Trace(
        name=f"{shape} {number}",
        duration_s=DURATION,
        arrivals=parts(shape, draw),
        spacing=draw.choice(["random", "even"]),
        service_time_s=draw.choice([0.05, 0.3, 1, 3]),
        service=draw.choice(["constant", "exponential"]),
        start_time_s=draw.choice([0.3, 2, 15, 40]),
        max_ongoing_requests=target + draw.choice([0, 1, 3]) + 1,
        seed=number,
    )
    config = AutoscalingConfig(
        min_replicas=least,
        max_replicas=draw.choice([4, 20, 60]),
        target_ongoing_requests=target,
        look_back_period_s=draw.choice([5, 10, 30]),
        upscale_delay_s=draw.choice([0, 5, 30]),
        downscale_delay_s=draw.choice([0, 10, 60]),
        downscale_to_zero_delay_s=draw.choice([None, 5, 90]),
        upscaling_factor=draw.choice([1, 1, 0.5]),
        downscaling_factor=draw.choice([1, 1, 0.5]),
    )
    return shape, trace, config


def idle_spans(outcome: TraceOutcome) -> list[tuple[float, float]]:
    """Return from when to when there was no request, and none came."""
    spans: list[tuple[float, float]] = []
    busy = {math.ceil(time) for time in arrival_times(outcome.trace)}
    begin: float | None = None
    for moment in outcome.moments:
        if moment.queued or moment.ongoing or moment.time in busy:
            begin = None
        elif begin is None:
            begin = moment.time
            spans.append((begin, begin))
        else:
            spans[-1] = (begin, moment.time)
    return spans


def check(trace: Trace, config: AutoscalingConfig, outcome: TraceOutcome) -> None:
    """Check what holds for each trace."""
    targets = outcome.targets()
    assert all(config.min_replicas <= target <= config.max_replicas for target in targets), "bounds"
    assert all(delay == 0 for delay in outcome.wakes), "a request waits for no delay when there is no replica"
    for moment in outcome.moments:
        assert not moment.queued or moment.target, "a request waits, and nothing is to answer it"
    if not outcome.requests:
        assert max(targets) == config.min_replicas, "nothing is started for nobody"
    most = max(moment.queued + moment.ongoing for moment in outcome.moments)
    needed = max(1, config.min_replicas, math.ceil(outcome.requests / config.target_ongoing_requests))
    assert max(targets) <= needed, f"more than all requests at once need ({most} at most at a time)"
    zero_delay = config.downscale_to_zero_delay_s
    patient = config.look_back_period_s + max(config.downscale_delay_s, zero_delay or 0) + 5
    halving = 1 if config.downscaling_factor == 1 else 7
    for begin, end in idle_spans(outcome):
        if end - begin > patient * halving:
            assert outcome.targets(end - 1, end + 1)[-1] == config.min_replicas, f"idle from {begin} to {end}"


def test_two_hundred_traces() -> None:
    shapes = set()
    for number in range(TRACES):
        shape, trace, config = case(number)
        outcome = play(trace, config)
        try:
            check(trace, config, outcome)
        except AssertionError as error:
            raise AssertionError(f"{trace}\n{config}\n{outcome.changes}: {error}") from error
        shapes.add(shape)
    assert shapes == set(SHAPES)


@pytest.mark.parametrize("seed", range(12))
def test_under_steady_load_nothing_swings(seed: int) -> None:
    draw = random.Random(seed)
    config = AutoscalingConfig(
        min_replicas=draw.choice([0, 1]),
        max_replicas=50,
        target_ongoing_requests=2,
        look_back_period_s=draw.choice([10, 30]),
        upscale_delay_s=draw.choice([0, 5, 30]),
        downscale_delay_s=draw.choice([0, 10, 60, 600]),
    )
    rate, duration = draw.uniform(3, 12), 3000
    trace = Trace(
        arrivals=(Arrivals(rate=rate),), duration_s=duration, service_time_s=1, start_time_s=draw.choice([1, 20])
    )
    outcome = play(Trace(**{**{name: getattr(trace, name) for name in trace.__slots__}, "seed": seed}), config)
    settled = 900
    late = outcome.targets(since=settled)
    right = rate / 2
    assert outcome.turns(since=settled) <= 6, outcome.changes
    assert right - 1 <= min(late) <= max(late) <= max(right * 1.6, right + 4), (right, outcome.changes)
    assert outcome.unserved == 0


def test_evenly_spaced_requests_settle_on_the_right_number_and_stay_there() -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=50, upscale_delay_s=5, downscale_delay_s=30)
    trace = Trace(arrivals=(Arrivals(rate=8),), duration_s=1200, service_time_s=1, start_time_s=10, spacing="even")
    assert set(play(trace, config).targets(since=200)) == {4}


def test_short_spikes_do_not_start_anything_that_must_wait_for_a_delay() -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=50)
    spikes = tuple(Arrivals(at=at, requests=40) for at in (100, 400, 700))
    assert set(play(Trace(arrivals=spikes, duration_s=900), config).targets()) == {1}


def test_a_deployment_at_zero_answers_its_first_request_after_one_start() -> None:
    config = AutoscalingConfig(min_replicas=0, max_replicas=5)
    outcome = play(Trace(times=(100.5,), duration_s=200, start_time_s=0.3), config)
    assert outcome.waits == [pytest.approx(0.3)]
    assert outcome.wakes == [0.0]


def test_a_daily_wave_is_followed_up_and_down_once_a_day() -> None:
    day = 20_000.0
    config = AutoscalingConfig(min_replicas=0, max_replicas=40, target_ongoing_requests=2)
    wave = Trace(arrivals=(Arrivals(rate=[0, 3], period=day),), duration_s=day, service_time_s=2, spacing="even")
    outcome = play(wave, config)
    assert outcome.turns() <= 3 and 3 <= max(outcome.targets()) <= 4
    assert outcome.wait(0.999) < 2


def test_the_same_trace_plays_the_same_way() -> None:
    _, trace, config = case(4)
    assert play(trace, config).changes == play(trace, config).changes


numbers = some.integers(0, 30)


@settings(max_examples=60, deadline=None)
@given(
    loads=some.lists(some.tuples(numbers, numbers, some.integers(1, 40)), min_size=1, max_size=12),
    least=some.integers(0, 3),
    more=some.integers(0, 20),
    delays=some.tuples(some.integers(0, 20), some.integers(0, 20)),
    factors=some.tuples(some.floats(0.1, 3), some.floats(0.1, 3)),
)
def test_bounds_hold_whatever_is_reported(
    loads: list[tuple[int, int, int]], least: int, more: int, delays: tuple[int, int], factors: tuple[float, float]
) -> None:
    config = AutoscalingConfig(
        min_replicas=least, max_replicas=max(1, least + more), look_back_period_s=5,
        upscale_delay_s=delays[0], downscale_delay_s=delays[1],
        upscaling_factor=factors[0], downscaling_factor=factors[1],
    )  # fmt: skip
    autoscaler = Autoscaler(config)
    target, now = autoscaler.initial(), 0.0
    for queued, ongoing, seconds in loads:
        for _ in range(seconds):
            now += 1
            autoscaler.observe(now, queued, ongoing)
            following = autoscaler.decide(now, target, target)
            assert config.min_replicas <= following <= config.max_replicas
            assert following or not queued
            target = following


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"arival": []}, "the trace has no setting 'arival'; did you mean 'arrivals'"),
        ({"arrivals": [{"rates": 1}]}, r"arrivals\[0\] of the trace has no setting 'rates'; did you mean 'rate'"),
        ({"arrivals": [{"rate": 1, "at": 3}]}, "has either `rate`, or `at` and `requests`"),
        ({"arrivals": [{"rate": [1, 2, 3]}]}, "`rate` is requests a second, or two of them"),
        ({"arrivals": [{"rate": -1}]}, "`rate` is requests a second, or two of them"),
        ({"arrivals": 3}, "`arrivals` of a trace is a list of parts, not 3"),
        ({"spacing": "odd"}, '`spacing` is "random" or "even", not \'odd\''),
        ({"service_time_s": 0}, "`service_time_s` are above 0"),
    ],
)
def test_a_trace_that_makes_no_sense_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(DeploymentError, match=message):
        trace_of(data)
