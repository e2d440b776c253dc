"""Machines of Google Compute Engine for a kernel cluster: the node provider `gcp`."""
