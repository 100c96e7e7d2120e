"""Fixtures that tests of the page share with those of the report."""

from __future__ import annotations

from tests.report.test_browser import browser as browser
