"""Environments that ship with the library, most of them rules in numpy for any number of lanes at once.

Each is a `Game`; `native.NativeEnv` steps many lanes of one, and `game.SingleEnv` is one lane as an environment of
gymnasium with the same rules.
"""
