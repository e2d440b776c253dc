"""The commands `kernel autoscaler ...`."""
