"""Commands and options of Ray, and the same of kernel. Data only.

A command becomes kernel's of that name; an option becomes another, nothing (with the reason), or is refused.
"""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "debug": "debug",
    "drain-node": "drain",
    "logs": "logs",
    "memory": "memory",
    "microbenchmark": "microbenchmark",
    "stack": "stack",
    "start": "start",
    "stat": "status",
    "status": "status",
    "stop": "stop",
    "timeline": "timeline",
    "list": "list",
    "summary": "summary",
    "get": "get",
    "attach": "attach",
    "cluster-dump": "cluster-dump",
    "dashboard": "-there is none; `kernel status` and `kernel events` show a session",
    "disable-usage-stats": "-nothing is reported anywhere",
    "down": "down",
    "enable-usage-stats": "-nothing is reported anywhere",
    "exec": "exec",
    "get-head-ip": "get-head-ip",
    "get-worker-ips": "get-worker-ips",
    "globalgc": "-objects go with their references, everywhere",
    "job": "-run the program with RAY_ADDRESS, or KERNEL_ADDRESS, set to the head's HOST:PORT",
    "kill-random-node": "kill-random-node",
    "monitor": "monitor",
    "project": "-run the commands by the shell or make",
    "rsync-down": "rsync-down",
    "rsync-up": "rsync-up",
    "session": "-run the commands by the shell or make",
    "submit": "submit",
    "up": "up",
}
"""Maps Ray's command to kernel's; after "-", to advice."""

_PORTS = "a node has one port for everything: --port"
_REDIS = "there is no Redis; what must last is kept by --metadata-store"
_DASHBOARD = "no dashboard is started; `kernel status` shows a session"
_PLACES = "sockets and files are below --temp-dir"

START_OPTIONS: dict[str, str] = {
    "--address": "--address",
    "--block": "--block",
    "--head": "--head",
    "--labels": "--labels",
    "--labels-file": "--labels-file",
    "--memory": "--memory",
    "--node-ip-address": "--node-ip-address",
    "--num-cpus": "--num-cpus",
    "--num-gpus": "--num-gpus",
    "--object-store-memory": "--object-store-memory",
    "--object-spilling-directory": "--spill-directory",
    "--plasma-directory": "--object-store-directory",
    "--port": "--port",
    "--redis-address": "--address",
    "--redis-port": "--port",
    "--resources": "--resources",
    "--temp-dir": "--temp-dir",
}
"""Options of `ray start` that kernel has under the same name or another."""

START_IGNORED: dict[str, str] = {
    "--autoscaling-config": "`kernel up` writes the configuration of the autoscaler",
    "--dashboard-agent-grpc-port": _DASHBOARD,
    "--dashboard-agent-listen-port": _DASHBOARD,
    "--dashboard-grpc-port": _DASHBOARD,
    "--dashboard-host": _DASHBOARD,
    "--dashboard-port": _DASHBOARD,
    "--disable-usage-stats": "nothing is reported anywhere",
    "--huge-pages": "the object store uses ordinary pages",
    "--include-dashboard": _DASHBOARD,
    "--include-webui": _DASHBOARD,
    "--include-log-monitor": "workers' output is kept by `kernel logs`, and shown by the program",
    "--internal-config": "it names settings of Ray's own processes",
    "--load-code-from-local": "workers import functions and classes of modules always",
    "--log-color": "NO_COLOR=1 turns colours off",
    "--log-style": "there is one style",
    "--lru-evict": "a full store moves objects to disk",
    "--max-worker-port": _PORTS,
    "--metrics-export-port": "no port is opened for metrics: KERNEL_METRICS_SINKS takes them elsewhere",
    "--min-worker-port": _PORTS,
    "--no-redirect-output": "output is kept by `kernel logs`",
    "--no-redirect-worker-output": "output is kept by `kernel logs`",
    "--node-manager-port": _PORTS,
    "--num-redis-shards": _REDIS,
    "--num-workers": "workers are started as they are needed",
    "--object-manager-port": _PORTS,
    "--plasma-store-socket-name": _PLACES,
    "--proxy-server-url": _DASHBOARD,
    "--ray-debugger-external": "no process waits for a debugger on a port of its own",
    "--ray-client-server-port": _PORTS,
    "--raylet-socket-name": _PLACES,
    "--redis-max-clients": _REDIS,
    "--redis-max-memory": _REDIS,
    "--redis-password": "programs and nodes are let in by a token: `kernel token`, --token-file",
    "--redis-shard-ports": _REDIS,
    "--runtime-env-agent-port": _PORTS,
    "--storage": "there are no workflows",
    "--system-reserved-cpu": "--num-cpus says how many CPUs are for tasks",
    "--system-reserved-memory": "--memory says how much is for tasks",
    "--system-config": "it names settings of Ray's own processes",
    "--tracing-startup-hook": "use an observer plugin",
    "--verbose": "there is one way to say it",
    "--webui-host": _DASHBOARD,
    "--worker-port-list": _PORTS,
}
"""Options of `ray start` that have no effect here."""

START_REFUSED: dict[str, str] = {
    "--cgroup-path": "say --memory, and memory= of tasks; see docs/users.md",
    "--enable-resource-isolation": "say --memory, and memory= of tasks; see docs/users.md",
    "--include-java": "kernel runs Python only",
    "--java-worker-options": "kernel runs Python only",
}

FLAGS = frozenset(
    {
        "--block", "--disable-usage-stats", "--enable-resource-isolation", "--head", "--huge-pages", "--include-java",
        "--load-code-from-local", "--lru-evict", "--no-redirect-output", "--no-redirect-worker-output",
        "--ray-debugger-external", "--verbose",
    }
)  # fmt: skip
"""Options that take no value."""

OTHERS_IGNORED = frozenset({"--log-color", "--log-style", "--redis_password", "--verbose", "-v", "-y", "--yes"})
"""Options of the other commands that have no effect here."""

LISTINGS_REFUSED = {
    "cluster-events": "`kernel events` shows what happens, as it happens",
    "runtime-envs": "an environment is made by the node of each worker that wants it, and is in no list",
}
"""Kinds of rows that `ray list` has and kernel does not."""

FORCED = {"-f": "--force"}
"""Short options of the other commands."""

LAUNCHER = frozenset(
    {
        "attach", "cluster-dump", "down", "exec", "get-head-ip", "get-worker-ips", "kill-random-node", "monitor",
        "rsync-down", "rsync-up", "submit", "up",
    }
)  # fmt: skip
"""Commands that take a cluster file: those of kernel-launcher, with the same options."""

LAUNCHER_IGNORED = {
    "--disable-usage-stats": False, "--log-color": True, "--log-style": True, "--no-config-cache": False,
    "--redirect-command-output": False, "--use-login-shells": False, "--use-normal-shells": False, "--verbose": False,
    "-v": False,
}  # fmt: skip
"""Their options that have no effect here, and whether each takes a value."""
