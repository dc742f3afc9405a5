"""What runs in an interpreter that has no library. It imports Python's own modules, and of the course ``autograder.protocol.plain``."""
