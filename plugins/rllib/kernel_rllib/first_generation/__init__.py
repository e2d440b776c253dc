"""The doors of RLlib's first generation: trainers, and policies that users write, over the one implementation."""
