"""The engine of many processes: drivers, workers, an agent on each node, and a head for the session.

From the bottom up: `system` and `transport` do not depend on sessions; `protocol` defines the messages; `runtime` is in
every process that runs user code, and `worker` adds what only workers need; `node` is the agent, `head` the head, and
`daemons` puts both together; `session` starts and joins sessions for `kernel.init`, and `cli` has the commands.
"""
