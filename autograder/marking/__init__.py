"""The marking service of a graded course: hidden tests run on the instructor's machine, as many times as it allows."""
