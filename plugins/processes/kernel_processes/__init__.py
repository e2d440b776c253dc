"""The engine of many processes: drivers, workers, an agent on each node, and a head for the session.

Read from below: `system` and `transport` know no session; `protocol` is what is said; `runtime` is the part of every
process that runs user code, `worker` what workers add; `node` is the agent, `head` the head, and `daemons` puts both
together; `session` starts and joins one for `kernel.init`, and `cli` has the commands.
"""
