"""Programs that show how things are done: run them by `python -m kernel_rllib.examples.NAME`, or copy them."""
