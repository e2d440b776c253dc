"""What is done to clusters: the shell around plans and steps."""
