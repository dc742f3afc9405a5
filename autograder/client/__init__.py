"""What learners of a graded course install as ``gpulab-mark``: it asks the course's marking service, and holds no hidden test."""
