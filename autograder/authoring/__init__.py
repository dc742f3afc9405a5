"""What an author of exercises uses: the pipeline from text, attempts that are tried, the gates."""
