"""What comes from a learning management system: lists of students, archives of hand-ins."""
