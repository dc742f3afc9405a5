"""A learner alone: the hidden tests on one's own notebook, and a page that says what they found."""
