"""For tests of deployments and of autoscaling policies."""
