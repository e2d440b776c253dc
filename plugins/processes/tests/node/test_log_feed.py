"""Output on its way to drivers: whole for those who read, bounded for those who do not."""

from __future__ import annotations

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.log_feed import LINES_A_MESSAGE, WAITING_MESSAGES, LogFeed


class Driver:
    """A connection that writes only while `reads` is set."""

    def __init__(self):
        self.outbox = []
        self.read = []
        self.reads = True

    def send(self, message):
        self.outbox.append(message)

    def flush(self):
        if self.reads:
            self.read += self.outbox
            self.outbox = []

    def lines(self):
        return [line for _, _, _, _, lines in self.read for line in lines]


def test_lines_come_as_they_are():
    feed, driver = LogFeed(), Driver()
    feed.send([driver], 7, "work", "stdout", ["a", "b"])
    assert driver.read == [packed(op.LogLines(pid=7, name="work", stream="stdout", lines=["a", "b"]))]


def test_a_driver_that_pauses_misses_nothing_of_a_burst_of_single_lines():
    feed, driver = LogFeed(), Driver()
    driver.reads = False
    for number in range(5000):
        feed.send([driver], 7, "work", "stdout", [str(number)])
    assert len(driver.outbox) <= WAITING_MESSAGES
    driver.reads = True
    driver.flush()
    assert driver.lines() == [str(number) for number in range(5000)]


def test_lines_of_different_workers_and_streams_stay_apart():
    feed, driver = LogFeed(), Driver()
    driver.reads = False
    for pid, stream in ((1, "stdout"), (2, "stdout"), (2, "stderr"), (2, "stderr")):
        feed.send([driver], pid, "work", stream, ["x"])
    assert [message[1:4] for message in driver.outbox] == [
        (1, "work", "stdout"),
        (2, "work", "stdout"),
        (2, "work", "stderr"),
    ]


def test_what_two_drivers_get_is_not_shared():
    feed, first, second = LogFeed(), Driver(), Driver()
    first.reads = second.reads = False
    for number in range(3):
        feed.send([first, second], 1, "work", "stdout", [str(number)])
    for driver in (first, second):
        driver.reads = True
        driver.flush()
        assert driver.lines() == ["0", "1", "2"]


def test_a_driver_that_does_not_read_costs_a_bounded_amount_and_is_told():
    feed, driver = LogFeed(), Driver()
    driver.reads = False
    total = (WAITING_MESSAGES + 10) * LINES_A_MESSAGE
    for number in range(total):
        feed.send([driver], 7, "work", "stdout", [str(number)])
    assert sum(len(message[4]) for message in driver.outbox) <= (WAITING_MESSAGES + 1) * LINES_A_MESSAGE
    driver.reads = True
    driver.flush()
    feed.send([driver], 7, "work", "stdout", ["at last"])
    missed = total - (len(driver.lines()) - 2)
    assert driver.lines()[-2:] == [
        f"{missed} lines were left out because this program reads too slowly; see `kernel logs`",
        "at last",
    ]
