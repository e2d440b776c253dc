"""A process that steps some lanes of a runner: it waits for single bytes, and answers through shared memory.

It ends when the runner is gone, however that ended: a thread waits at a pipe that is closed then. Through that pipe it
is also asked where it is, when a step takes long.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import Any

from kernel_rllib.envs import process_wire as wire
from kernel_rllib.envs.contract import Step
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.moves import MOVES
from kernel_rllib.envs.shared_slots import Slots
from kernel_rllib.envs.whereabouts import Whereabouts, whereabouts_of
from kernel_rllib.spaces import nested


def main(commands: int, life: int, memory: int, answers: int, places: int, replies: list[int]) -> None:
    """Serve a runner until it is gone or says so. The arguments are descriptors; `replies` has one for each part."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The runner gets the signal, too, and decides.
    for descriptor in (commands, life, memory, answers, places, *replies):
        os.set_inheritable(descriptor, False)
    intake = _Intake(commands)
    threading.Thread(target=_live_with, args=(life, places, intake), name="runner's life", daemon=True).start()
    try:
        child = _Child(memory, replies, wire.receive(commands))
        wire.send(answers, wire.TOLD, child.facts())
    except Exception as error:
        wire.send_error(answers, error)
        return
    while command := intake.next():
        if command != wire.REQUEST:
            child.step(*wire.parsed_step(command))
            continue
        method, arguments = wire.receive(commands)
        if method == "close":  # The runner waits for no answer.
            child.close()
            return
        try:
            answer = getattr(child, method)(*arguments)
        except Exception as error:
            wire.send_error(answers, error)
        else:
            wire.send(answers, wire.TOLD, answer)


class _Intake:
    """Reads the commands of the runner, a byte at a time, and notes whether this process waits for one."""

    def __init__(self, commands: int) -> None:
        self._commands = commands
        self.waits = False

    def next(self) -> bytes:
        """Wait for a command; return its byte, or nothing when the runner is gone.

        To have taken a command is a sign of life: the time that a step takes begins here.
        """
        self.waits = True
        command = os.read(self._commands, 1)
        MOVES.count += 1  # Counted first, or a process that has just taken its command would seem to hang.
        self.waits = False
        return command


def _live_with(life: int, places: int, intake: _Intake) -> None:
    """Say where this process is, for each byte through a pipe; end it when the other end is closed."""
    main = threading.main_thread().ident
    assert main is not None
    while os.read(life, 1):
        with contextlib.suppress(OSError):  # The runner has closed its end.
            wire.send(places, wire.TOLD, Whereabouts(MOVES.count) if intake.waits else whereabouts_of(main))
    os._exit(1)


class _Child:
    """The lanes of this process, in parts that are stepped apart."""

    def __init__(self, memory: int, replies: list[int], hello: wire.Hello) -> None:
        self._memory = memory
        self._replies = replies
        self._first_lanes = hello.first_lanes
        self._loops = [
            LoopEnv(makers, first_lane=first_lane, **hello.settings)
            for makers, first_lane in zip(hello.makers, hello.first_lanes, strict=True)
        ]
        self._views: list[_Views] = []

    def facts(self) -> tuple[Any, Any, str]:
        """Return the spaces of observations and actions, and the environment's name."""
        loop = self._loops[0]
        return loop.observation_space, loop.action_space, loop.name

    def attach(self, lanes: int) -> None:
        """Map the memory, which the runner has made large enough by now."""
        slots = Slots(self._memory, *self.facts()[:2], lanes)
        self._views = [
            _Views(slots, slice(first, first + loop.num_lanes))
            for first, loop in zip(self._first_lanes, self._loops, strict=True)
        ]

    def step(self, part: int, turn: int) -> None:
        """Step the lanes of a part, write what they gave, and reply."""
        reply, views = self._replies[part], self._views[part]
        try:
            step = self._loops[part].step(views.actions)
        except Exception as error:
            wire.send_error(reply, error)
            return
        views.write(step, turn)
        if step.infos or step.reset_infos or step.faults:
            faults = {lane: _portable(fault) for lane, fault in step.faults.items()}
            wire.send(reply, wire.TOLD, (step.infos, step.reset_infos, faults))
        else:
            os.write(reply, wire.QUIET)

    def reset(self, part: int, seeds: list[int | None], turn: int) -> dict[int, dict[str, Any]]:
        """Begin an episode in each lane of a part; return what was told."""
        nested.write(self._views[part].obs[turn], self._loops[part].reset(seeds))
        return self._loops[part].reset_infos

    def reset_lane(self, part: int, lane: int, seed: int | None) -> tuple[Any, Any]:
        """Begin an episode in one lane of a part; return its observation and what was told."""
        return self._loops[part].reset_lane(lane, seed), self._loops[part].reset_infos

    def foreach(self, part: int, function: Any) -> list[Any]:
        """Return what a function returns for each environment of a part."""
        return self._loops[part].foreach(function)

    def render(self, part: int, lane: int) -> Any:
        """Return what an environment draws."""
        return self._loops[part].render(lane)

    def snapshot(self, part: int, lane: int) -> bytes:
        """Return the state of a lane."""
        return self._loops[part].snapshot(lane)

    def restore(self, part: int, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was."""
        self._loops[part].restore(lane, snapshot)

    def close(self) -> None:
        """Close all environments."""
        for loop in self._loops:
            loop.close()


class _Views:
    """The places of some lanes in shared memory."""

    def __init__(self, slots: Slots, lanes: slice) -> None:
        self.obs = [nested.rows(struct, lanes) for struct in slots.obs]
        self.actions = nested.rows(slots.actions, lanes)
        self._final_obs = nested.rows(slots.final_obs, lanes)
        self._rewards = slots.rewards[lanes]
        self._terminateds = slots.terminateds[lanes]
        self._truncateds = slots.truncateds[lanes]

    def write(self, step: Step, turn: int) -> None:
        """Put down what a step gave."""
        nested.write(self.obs[turn], step.obs)
        self._rewards[:] = step.rewards
        self._terminateds[:] = step.terminateds
        self._truncateds[:] = step.truncateds
        for lane, value in step.final_obs.items():
            nested.write_row(self._final_obs, lane, value)


def _portable(fault: Exception) -> Exception:
    """Return an error without what it was raised from, which need not be something that can be pickled."""
    return type(fault)(*fault.args)
