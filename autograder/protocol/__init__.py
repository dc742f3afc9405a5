"""What crosses between the learner's process and the grader: messages, values, events, the ranks' sockets."""
