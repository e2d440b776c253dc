"""Programs to start from: `python -m kernel_serve.examples.NAME`; each says how to ask it, and what it answers."""
