"""Machines of AWS EC2 for a kernel cluster: the node provider `aws`."""
