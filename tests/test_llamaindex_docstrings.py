"""Every example in a docstring of the adapter is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import llamaindex_ctxarith

MODULES = sorted(m.name for m in pkgutil.walk_packages(llamaindex_ctxarith.__path__, "llamaindex_ctxarith."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
