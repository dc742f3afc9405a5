"""Run in the referee; judge evidence against a reference. Never inside the sandbox."""
