"""What users call: deployments, running applications, handles."""
