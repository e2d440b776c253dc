"""Trying a scheduler out: one process plays the head, thousands of nodes and the programs that use them.

`Simulation` drives a scheduler through its contract alone: events in, instructions out, time from a heap of what
happens when. The same load, scheduler and seed give the same run. `kernel simulate` is its command.
"""

from kernel_simulation.engine import Simulation
from kernel_simulation.load import Load, NodeKind
from kernel_simulation.load_file import load_from, read_load, write_load
from kernel_simulation.recording import load_of_timeline
from kernel_simulation.report import Report
from kernel_simulation.scenarios import SCENARIOS, scenario

__all__ = [
    "SCENARIOS",
    "Load",
    "NodeKind",
    "Report",
    "Simulation",
    "load_from",
    "load_of_timeline",
    "read_load",
    "scenario",
    "write_load",
]
