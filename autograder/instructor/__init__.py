"""For the instructor: a course to plan, and a report on a class, each one page that loads nothing from elsewhere."""
