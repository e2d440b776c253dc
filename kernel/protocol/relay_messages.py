"""What the agent of a remote driver and the relay say to each other: number first, plain values after."""

HERE = 1
"""client -> relay, first: its id in hexadecimal. It is to be called back by that."""
PLACE = 2
"""relay -> client, the answer: where the whole cluster reaches the client by way of the relay."""
CALL_BACK = 3
"""relay -> client: ticket. Somebody wants it: dial the relay's gateway with that ticket."""
