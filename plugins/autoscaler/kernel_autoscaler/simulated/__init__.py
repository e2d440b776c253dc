"""A cloud and a cluster that only exist in virtual time, to try an autoscaler out on."""
