"""The smallest plugin. `plugin` says what it offers, `command` and `observer` are what it offers."""
