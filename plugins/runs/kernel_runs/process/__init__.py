"""What the process of a run sets up for it: which GPUs it sees, where what it prints goes."""
