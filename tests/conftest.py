"""What all tests share.

No test fails because a machine is slow: hypothesis would by default, at 200 ms an example.
"""

import pytest
from hypothesis import settings

from levelhead.models.model import Model, load

settings.register_profile("levelhead", deadline=None)
settings.load_profile("levelhead")


@pytest.fixture(scope="session")
def bert() -> Model:
    return load("lh:bert-mini")


@pytest.fixture(scope="session")
def gpt() -> Model:
    return load("lh:gpt-mini")
