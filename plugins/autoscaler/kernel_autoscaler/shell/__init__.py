"""What carries out the autoscaler's decisions: the service of the head, its process, and the calls to a provider."""
