"""Policies as users ask for them: how they act and learn, seen from outside. Their parts are in packages below."""
