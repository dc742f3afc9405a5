"""Self-check for a learner: the hidden tests on one's own notebook, and a page with what they found."""
