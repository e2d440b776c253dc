"""The answers of local mode to `Runtime.query`, which a node agent and the head give elsewhere.

Each class answers some questions, with its public methods; `table` finds the method that answers a question.
"""
