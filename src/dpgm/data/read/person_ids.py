"""When two ids are the same person: where they differ at most in what nobody sees.

Ids are typed, pasted and exported by different programs, so one person may occur with a composed and a decomposed
accent, a no-break space, a byte order mark or a zero-width mark in the id. Taken for several persons, they would have
several records, each protected alone. The text of the id alone decides, in files and frames alike.
"""

import re
import unicodedata

import numpy as np
import pyarrow as pa

# Letters and marks that Unicode calls ignorable, beside control and format characters (categories Cc and Cf): grapheme
# joiner, fillers and variation selectors.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def person_id(text: str) -> str:
    r"""The id as it is compared: without invisible characters, white space as single spaces inside, in NFC.

    >>> person_id(" Ann\u00a0 S\u00adtern\u200b"), person_id("\u200b")
    ('Ann Stern', '')
    """
    if text.isascii() and text.isprintable() and " " not in text:
        return text
    visible = (
        " " if one.isspace() else one
        for one in _IGNORABLE.sub("", text)
        if one.isspace() or unicodedata.category(one) not in ("Cc", "Cf")
    )
    return unicodedata.normalize("NFC", " ".join("".join(visible).split()))


def person_ids(texts: pa.Array) -> pa.Array:
    """`person_id` of a column of texts."""
    if _visible_ascii(texts):
        return texts
    encoded = texts.dictionary_encode()
    ids = [None if text is None else person_id(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(ids, type=pa.string()).take(encoded.indices)


def _visible_ascii(texts: pa.Array) -> bool:
    """Whether all characters are visible ones of ASCII, as in most ids; spaces are not."""
    if not len(texts) or texts.buffers()[2] is None:
        return True
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    characters = np.frombuffer(texts.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    return not len(characters) or bool(characters.min() > ord(" ") and characters.max() <= ord("~"))
