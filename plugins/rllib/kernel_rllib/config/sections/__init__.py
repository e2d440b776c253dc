"""The common settings, one file for each fluent method: what it sets, and its signature."""
