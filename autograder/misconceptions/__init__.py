"""What people get wrong in exercises, in words and as code, and which of it a submission holds."""
