"""The API for users: deployments, running applications, handles."""
