"""Run beside the learner's code; produce evidence; know no answer."""
