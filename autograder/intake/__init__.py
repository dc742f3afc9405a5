"""What a learner handed in, made into a notebook that can be graded: found, read, recognised, put in order."""
