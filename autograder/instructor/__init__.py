"""The instructor's desk: courses to plan, and where a class stands, on one page that loads nothing."""
