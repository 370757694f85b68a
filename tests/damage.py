"""Damage to files, for tests: bytes cut off, flipped, replaced, put in."""

from hypothesis import strategies as st

MANY = {"max_examples": 60, "deadline": None}


@st.composite
def damages(draw):
    """A function of bytes: a file that was damaged in one way, or in several at once."""
    steps = draw(
        st.lists(st.sampled_from(("cut", "flip", "replace", "put in")), min_size=1, max_size=3)
    )
    places = [draw(st.floats(0.0, 1.0, exclude_max=True)) for _ in steps]
    texts = [draw(st.binary(min_size=1, max_size=12)) for _ in steps]

    def damage(data: bytes) -> bytes:
        for step, place, text in zip(steps, places, texts):
            at = int(place * len(data))
            if step == "cut":
                data = data[:at]
            elif step == "flip":
                data = data[:at] + bytes(b ^ text[0] for b in data[at : at + 1]) + data[at + 1 :]
            elif step == "replace":
                data = data[:at] + text + data[at + len(text) :]
            else:
                data = data[:at] + text + data[at:]
        return data

    return damage
