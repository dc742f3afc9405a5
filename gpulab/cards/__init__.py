"""The cards of the course: what their makers say of them, and what the model assumes. Imports nothing of the rest."""
