"""What all tests share.

No test fails because a machine is slow: hypothesis would by default, at 200 ms an example.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from levelhead.models.model import Model, load

settings.register_profile("levelhead", deadline=None)
settings.load_profile("levelhead")
_HERE = Path(__file__).parent
_WHOLE_RUNS = (  # how paths begin
    "api",
    "studies",
    "mitigation",
    "scoring",
    "engine/test_finetuning",
    "test_auditing",
    "measures/test_catalog",
    "test_cli",
    "test_docs",
    "test_plants",
)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Whole measures, studies, exports, commands and pages of the docs are slow: not in `make test-fast`."""
    for item in items:
        if str(item.path.relative_to(_HERE)).startswith(_WHOLE_RUNS):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def bert() -> Model:
    return load("lh:bert-mini")


@pytest.fixture(scope="session")
def gpt() -> Model:
    return load("lh:gpt-mini")


@pytest.fixture(autouse=True)
def _measures_of_a_test_end_with_it() -> Iterator[None]:
    """A measure that a test, or a page of the docs, registers is not asked by the audits of later tests."""
    yield
    if (registry := sys.modules.get("levelhead.scoring.registry")) is not None:
        registry._OWN.clear()
