"""For authors of searchers: the conformance suite that tune's own pass, too."""
