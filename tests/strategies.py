"""Hypothesis strategies: what an SDK may hand over."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

# Hypothesis avoids surrogates by itself; NUL it finds.
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
integers = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**4300) + 1, max_value=10**4300 - 1),
    st.sampled_from([10**400, -(10**400), 2**63, -(2**63), 2**63 - 1]),
)
numbers = st.one_of(integers, st.floats())

_marker_keys = st.sampled_from(
    ["$bytes", "$$bytes", "$$$bytes", "$float", "$$float", "bytes", "$", "__bytes_encoded__"]
)


def _containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(values, max_size=5),
        st.dictionaries(texts, values, max_size=5),
        # What looks like our marker of bytes, like an escaped one, and like that of Strands.
        st.dictionaries(_marker_keys, values, min_size=1, max_size=2),
        st.fixed_dictionaries(
            {"__bytes_encoded__": st.booleans(), "data": st.sampled_from(["", "AA==", "%%%"])}
        ),
    )


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts, st.binary(max_size=60)),
    _containers,
    max_leaves=25,
)
"""Any JSON value within the default limits, with bytes anywhere a value may stand."""


def exactly(value: Any) -> str:
    """What two values share only if they are equal, of one type, in one order of keys.

    ``1 == 1.0 == True`` and ``{"a": 1, "b": 2} == {"b": 2, "a": 1}``, but their reprs differ.
    """
    return repr(value)
