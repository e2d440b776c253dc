<<<<<<< HEAD
"""For people who write schedulers: a simulated experiment, and the conformance suite that every scheduler passes."""
=======
"""For authors of searchers: the conformance suite that tune's own pass, too."""
>>>>>>> tune-search
