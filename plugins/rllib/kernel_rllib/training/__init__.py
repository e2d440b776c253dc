"""What all algorithms share: parts, one iteration, evaluation, results, policies and checkpoints."""
