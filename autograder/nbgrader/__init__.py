"""Plugins for nbgrader's extension points: how ``nbgrader autograde`` reaches the referee."""
