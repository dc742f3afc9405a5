"""What settles the claims of the chapter "Data parallelism in depth": one test a claim."""

import pytest


def test_what_is_right_about_claim_145():
    pytest.fail("WRITE(data_parallel): a test that runs what claim C145 of chapters/claims.yml is about, named for what is right")
