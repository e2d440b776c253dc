"""What local mode answers to `Runtime.query`, as a node agent and the head would.

Each class answers some questions, with its public methods; `table` finds the method that answers a question.
"""
