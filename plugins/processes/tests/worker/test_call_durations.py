"""When a worker tells how long its calls take."""

from kernel_processes.worker.call_durations import LEAST_SECONDS, REPEAT_SECONDS, CallDurations


def test_the_first_measurement_is_told_and_the_same_again_is_not():
    durations = CallDurations()
    assert durations.measured(b"f", 0.001, 0.0) == 0.001
    assert durations.measured(b"f", 0.0012, 0.01) is None
    assert durations.measured(b"g", 0.001, 0.01) == 0.001


def test_a_change_is_told_at_once_and_smoothed():
    durations = CallDurations()
    durations.measured(b"f", 0.001, 0.0)
    assert durations.measured(b"f", 0.005, 0.01) == 0.003
    assert durations.measured(b"f", 0.0001, 0.02) is None
    assert durations.measured(b"f", 0.0001, 0.03) < 0.0015


def test_what_has_not_changed_is_repeated_now_and_then():
    durations = CallDurations()
    durations.measured(b"f", 0.001, 0.0)
    assert durations.measured(b"f", 0.001, REPEAT_SECONDS) == 0.001
    assert durations.measured(b"f", 0.001, REPEAT_SECONDS + 0.01) is None


def test_calls_too_short_to_matter_are_all_alike():
    durations = CallDurations()
    assert durations.measured(b"f", 1e-9, 0.0) == LEAST_SECONDS
    assert durations.measured(b"f", LEAST_SECONDS, 0.01) is None


def test_somebody_else_hears_it_anew():
    durations = CallDurations()
    durations.measured(b"f", 0.001, 0.0)
    durations.forget()
    assert durations.measured(b"f", 0.001, 0.01) == 0.001
