"""What an exercise is and what it earned: no process, no socket, no notebook."""
