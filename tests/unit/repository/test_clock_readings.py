"""The wall clock jumps. What decides reads a clock that does not; here is everything that reads the other, and why."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
ALLOWED = {
    "kernel/api/state.py": "spans on the timeline",
    "plugins/processes/kernel_processes/cli/certificates_command.py": "certificates are valid by the wall clock",
    "plugins/processes/kernel_processes/cli/status_command.py": "how long ago something was, for people",
    "plugins/processes/kernel_processes/cli/stop_command.py": "how long it ran, for people",
    "plugins/processes/kernel_processes/cli/debug_command.py": "since when a breakpoint waits, for people",
    "plugins/processes/kernel_processes/head/job_service.py": "when a program joined and left, for people",
    "plugins/processes/kernel_processes/head/membership.py": "when a node joined, for people",
    "plugins/processes/kernel_processes/head/head.py": "when the session began, for people",
    "plugins/processes/kernel_processes/head/observation.py": "when something happened, for people and observers",
    "plugins/autoscaler/kernel_autoscaler/shell/process.py": "how long ago something was, over restarts",
    "plugins/provider_aws/kernel_provider_aws/plugin.py": "when a cloud will take a machine back, which it dates by it",
    "plugins/provider_kubernetes/kernel_provider_kubernetes/provider.py": "since when a pod has waited, by its server",
    "plugins/control_grpc/kernel_control_grpc/services/pub_sub.py": "when something was said, for subscribers",
    "plugins/launcher/kernel_launcher/cli/looking.py": "whether the clocks of other machines agree with this one",
    "plugins/engine/kernel_engine/one_process/call_threads.py": "spans on the timeline",
    "plugins/local_mode/kernel_local_mode/event_loop.py": "spans on the timeline",
    "plugins/local_mode/kernel_local_mode/runtime.py": "since when, for people",
    "plugins/processes/kernel_processes/daemons/local_head.py": "when a node joined, for people",
    "plugins/processes/kernel_processes/node/log_service.py": "when a line was written, for people",
    "plugins/processes/kernel_processes/node/memory_ends.py": "when a worker was ended, for people",
    "plugins/processes/kernel_processes/node/node_events.py": "when something happened, for people and observers",
    "plugins/processes/kernel_processes/node/sessions.py": "the name of a session",
    "plugins/processes/kernel_processes/worker/async_executor.py": "spans on the timeline",
    "plugins/processes/kernel_processes/worker/breakpoints.py": "since when a breakpoint waits, for people",
    "plugins/processes/kernel_processes/worker/debug_session.py": "since when a breakpoint waits, for people",
    "plugins/processes/kernel_processes/worker/executor.py": "spans on the timeline",
    "plugins/engine/kernel_engine/failures/failure_reports.py": "when a call failed, for people",
    "plugins/processes/kernel_processes/cli/certificates.py": "certificates are valid by the wall clock",
    "plugins/parallel/kernel_parallel/coordination/registry.py": "fences that are higher than those before a restart",
    "plugins/rllib/kernel_rllib/offline/json_writer.py": "the name of a file of recorded experience",
    "plugins/runs/kernel_runs/loggers/tensorboard.py": "when a run ended, for people",
    "plugins/runs/kernel_runs/trainable/trainable.py": "when a result was made, for people",
    "plugins/serve/kernel_serve/control/controller.py": "when something was deployed, for people",
    "plugins/serve/kernel_serve/control/memory.py": "how long ago something was in another life of the controller",
    "plugins/serve/kernel_serve/metrics/process.py": "when a process began, for Prometheus",
    "plugins/serve/kernel_serve/proxy/framing.py": "the date header of answers",
    "plugins/serve/kernel_serve/proxy/service.py": "when a request came, in the access log",
    "plugins/serve/kernel_serve/replica/logs.py": "when a request came, in the access log",
    "plugins/tune/kernel_tune/execution/outputs.py": "when an experiment began, for people",
    "plugins/tune/kernel_tune/reporters/table_reporter.py": "what time it is, for people",
}


def readers_of_the_wall_clock() -> set[str]:
    found = set()
    for path in [*ROOT.glob("kernel/**/*.py"), *ROOT.glob("spec/**/*.py"), *ROOT.glob("plugins/*/kernel_*/**/*.py")]:
        text = path.read_text()
        if not any(f"{module}.{name}" in text for module, name in WALL):
            continue  # to parse all files would take seconds
        for node in ast.walk(ast.parse(text)):
            read = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if read and (node.value.id, node.attr) in WALL:  # type: ignore[attr-defined]
                found.add(str(path.relative_to(ROOT)))
    return found - {"plugins/testing/kernel_testing/clocks.py"}


def test_nothing_else_reads_the_wall_clock() -> None:
    assert readers_of_the_wall_clock() == ALLOWED.keys()
