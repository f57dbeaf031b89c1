"""Random clusterings of mentions, for hypothesis."""

from hypothesis import strategies as st

places = st.tuples(st.integers(0, 5), st.integers(0, 2)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


@st.composite
def clusterings(draw, smallest=1):
    """Clusters without common mentions."""
    found: dict[int, list] = {}
    for mention in draw(st.lists(places, unique=True, min_size=smallest, max_size=9)):
        found.setdefault(draw(st.integers(0, 4)), []).append(mention)
    return list(found.values())
