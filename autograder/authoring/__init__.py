"""What an author of exercises uses: corpus, misconceptions, the pipeline from text, the gates."""
