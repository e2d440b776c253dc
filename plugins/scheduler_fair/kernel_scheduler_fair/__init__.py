"""A scheduler for many users: the most important first, equal shares among equals, caps for each, preemption.

`scheduler` is the state machine; `policy` holds what may be set, `accounts` who has how much, `queues` who waits and
who is next, `plans` whose leases make room for them, `explanation` why a request waits, `checks` what must always hold.
"""
