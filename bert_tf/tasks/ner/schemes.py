"""Tags of words, and the entities that they mark.

A tag is "O", for a word outside of all entities, or a prefix, a hyphen and the type of
the entity, such as "B-PER". The prefix depends on the scheme:

* iob2: B for the first word of an entity, I for the others.
* iob1: I for all words; B for the first word of an entity directly after one of the
  same type.
* iobes: S for an entity of one word; else B for the first word, E for the last, I for
  the others.

`find_entities` reads all three schemes without knowing which one it is. `Notation`
converts the tags of files that are written in another way, such as BILOU, B_PER or
PER-B, to these tags and back.
"""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bert_tf.errors import InputError

SCHEMES = ("iob2", "iob1", "iobes")
DETECT = "detect"  # instead of a scheme: detect the scheme of each file
IO = "io"  # files only: I for all words, so adjacent entities of one type are one
OUTSIDE = "O"
UNNAMED = "ENTITY"  # the type of the entities of a file whose tags have no types
_PREFIXES = {"iob2": "BI", "iob1": "BI", "iobes": "BIES", IO: "I"}
# Files write the tag O in these ways.
_OUTSIDE_TAGS = (OUTSIDE, "o", "0")
# The prefixes of BILOU, BMES and BMEWO that have another letter in IOBES.
_LETTERS = {"L": "E", "M": "I", "U": "S", "W": "S"}
_FILE_TAG = re.compile(
    r"(?P<head>[BIESLMUW](?:[-_](?=.)|$))(?P<type>\S*)", re.IGNORECASE
)
# Further forms, such as B.PER, begin-PER and PER-B. They could also be types of the
# scheme IO, so a file must give evidence of them.
_LETTER = "(?:[BIESLMUW]|begin|in|inside|end|single)"
_FORMS = [
    re.compile(form.replace("separator", separator), re.IGNORECASE)
    for form in (
        rf"(?P<head>{_LETTER}[separator])(?P<type>\S+)",
        rf"(?P<type>\S+)(?P<head>[separator]{_LETTER})",
    )
    for separator in "-_."
]
# The letters of IOB2 and IOBES, BILOU, BMES, and BMEWO.
_LETTERS_OF_SCHEMES = ("BIES", "BILU", "BMES", "BMEW")
# Matches a tag of the scheme IO. It does not match numbers, which may be the indices of
# tags whose names are in another file, nor one letter before a hyphen, which may be an
# unknown prefix.
TYPE = re.compile(r"(?!.[-_])[\w./-]*[^\W\d_][\w./-]*")


class Entity(NamedTuple):
    """An entity of a type such as "PER": the words from `start` up to, but without, `end`."""

    type: str
    start: int
    end: int


def is_tag(text: str, scheme: str | None = None) -> bool:
    """Returns whether a text is a tag of a scheme; with None, of any scheme."""
    prefixes = _PREFIXES[scheme or "iobes"]
    pattern = rf"[{prefixes}]-\S+"
    return text == OUTSIDE or re.fullmatch(pattern, text) is not None


def split_tag(tag: str) -> tuple[str, str]:
    """Returns prefix and type: ("B", "a-b") for "B-a-b", and ("O", "") for "O"."""
    prefix, _, entity_type = tag.partition("-")
    return prefix, entity_type


def find_entities(tags: Iterable[str]) -> list[Entity]:
    """Returns the entities of a sentence, in their order.

    Each word with another tag than O is in an entity. A word continues the entity of
    the word before it if both have the same type, its prefix is I or E, and the prefix
    of the word before it is B or I. In all other cases it starts an entity. Sequences
    that a scheme does not permit, such as O before I-PER in IOB2, thus have entities
    too.

    Source: conlleval of the CoNLL-2000 shared task; E and S as in its later Python
    versions.
    """
    entities: list[Entity] = []
    start = 0
    last = OUTSIDE
    last_type = ""
    # The last tag ends an entity at the end of the sentence.
    for position, tag in enumerate((*tags, OUTSIDE)):
        prefix, entity_type = split_tag(tag)
        if not (prefix in "IE" and last in "BI" and entity_type == last_type):
            if last != OUTSIDE:
                entities.append(Entity(last_type, start, position))
            start = position
        last, last_type = prefix, entity_type
    return entities


def to_tags(entities: Iterable[Entity], length: int, scheme: str) -> list[str]:
    """Returns the tags of a sentence of `length` words.

    The entities are in the order of the sentence, and do not overlap. The scheme is one
    of `SCHEMES`, or `IO`, in which adjacent entities of one type become one entity.
    """
    tags = [OUTSIDE] * length
    previous = Entity("", 0, 0)
    for entity in entities:
        prefixes = ["I"] * (entity.end - entity.start)
        touches = previous.end == entity.start and previous.type == entity.type
        if touches if scheme == "iob1" else scheme != IO:
            prefixes[0] = "B"
        if scheme == "iobes":
            prefixes[-1] = "S" if len(prefixes) == 1 else "E"

        tags[entity.start : entity.end] = [
            f"{prefix}-{entity.type}" for prefix in prefixes
        ]
        previous = entity
    return tags


def convert(tags: Sequence[str], scheme: str) -> list[str]:
    """Returns tags in `scheme` for the entities that the given tags mark."""
    return to_tags(find_entities(tags), len(tags), scheme)


@dataclasses.dataclass(frozen=True)
class Notation:
    """The way in which a file writes its tags.

    Attributes:
        heads: The text that the file writes for each prefix, before or after the type:
            for "B", it is "B-" in a file with B-PER, "b_" with b_PER, and "-B" with
            PER-B. It is "" in the scheme IO, which has no prefixes, and "B" if the tags
            have no types; all entities then have the type `UNNAMED`.
        scheme: The scheme whose prefixes are accepted; None accepts all schemes.
        form: Matches a tag, with the groups `head` and `type`.
    """

    heads: Mapping[str, str]
    outside: str
    scheme: str | None
    form: re.Pattern[str] = _FILE_TAG

    @classmethod
    def of(
        cls, tags: Counter[str], scheme: str | None, types: Collection[str]
    ) -> "Notation":
        """Returns the notation that a file uses for most of its tags.

        `tags` has the number of words with each tag of the file, and `types` has the
        types of the entities of the model, if they are known.
        """
        # From rare to frequent tags: below, the last one decides.
        inside = [
            tag for tag, _ in reversed(tags.most_common()) if tag not in _OUTSIDE_TAGS
        ]
        form = next((f for f in _FORMS if _is_form(f, inside, types)), _FILE_TAG)
        matches = [match for tag in inside if (match := form.fullmatch(tag))]
        typed = [match for match in matches if match["type"]]
        is_bare = len(matches) == len(inside)
        outside = max(_OUTSIDE_TAGS, key=tags.__getitem__)

        # The scheme IO, if some words have the tag O. A column without O may have
        # something else than tags.
        if not typed and not is_bare and tags[outside]:
            return cls(dict.fromkeys("BIES", ""), outside, scheme)

        # Prefixes that the file does not have are written like the most frequent one.
        known = typed or (matches if is_bare else [])
        last = known[-1]["head"] if known else "B-"
        heads = {
            letter: re.sub(
                "[^-_.]+", letter.lower() if last.islower() else letter, last
            )
            for letter in "BIES"
        }
        heads |= {_prefix(match): match["head"] for match in known}
        return cls(heads, outside, scheme, form)

    @property
    def is_io(self) -> bool:
        """Whether the tags have no prefixes."""
        return not self.heads["B"]

    def read(self, tag: str) -> str | None:
        """Returns a tag of the file as a tag of IOB2 or IOBES; None if it is malformed."""
        if tag in _OUTSIDE_TAGS:
            return OUTSIDE
        if self.is_io:
            return f"I-{tag}" if TYPE.fullmatch(tag) else None

        match = self.form.fullmatch(tag)
        if not match or bool(match["type"]) != (len(self.heads["B"]) > 1):
            return None
        parsed_tag = f"{_prefix(match)}-{match['type'] or UNNAMED}"
        return parsed_tag if is_tag(parsed_tag, self.scheme) else None

    def write(self, tag: str) -> str:
        """Returns a tag of IOB1, IOB2 or IOBES as the file writes it."""
        if tag == OUTSIDE:
            return self.outside
        prefix, entity_type = split_tag(tag)
        head = self.heads[prefix]
        if len(head) == 1:
            return head if entity_type == UNNAMED else f"{head}-{entity_type}"
        # If the head is "", both orders give the same text.
        return entity_type + head if head[:1] in "-_." else head + entity_type


def _is_form(
    form: re.Pattern[str], tags: Sequence[str], types: Collection[str]
) -> bool:
    """Returns whether a file writes its tags in a form, such as PER-B.

    All tags must match the form, with the letters of one scheme. At least one type must
    be in `types` or, if `types` is empty, occur in the first and in further words of
    entities.
    """
    letters: defaultdict[str, set[str]] = defaultdict(set)  # by type
    for tag in tags:
        match = form.fullmatch(tag)
        if not match:
            return False
        letters[match["type"]].add(_letter(match))

    used = set[str]().union(*letters.values())
    if not any(map(used.issubset, _LETTERS_OF_SCHEMES)):
        return False
    return any(
        kind in types
        if types
        else "B" in used_letters and not used_letters.isdisjoint("IMEL")
        for kind, used_letters in letters.items()
    )


def _letter(match: re.Match[str]) -> str:
    return match["head"].strip("-_.")[0].upper()


def _prefix(match: re.Match[str]) -> str:
    """Returns the prefix of a tag of a file as a letter of IOBES."""
    letter = _letter(match)
    return _LETTERS.get(letter, letter)


def all_tags(types: Iterable[str], scheme: str) -> tuple[str, ...]:
    """Returns "O", and for each type, in alphabetic order, its tags in a scheme."""
    prefixes = _PREFIXES[scheme]
    return (
        OUTSIDE,
        *(f"{prefix}-{name}" for name in sorted(types) for prefix in prefixes),
    )


def types_of(tags: Iterable[str]) -> set[str]:
    """Returns the types of the entities that the tags mark."""
    return {entity_type for _, entity_type in map(split_tag, tags) if entity_type}


def scheme_of_labels(labels: Sequence[str]) -> str:
    """Returns "iobes" if a label of the model has the prefix E or S, else "iob2"."""
    wrong = next((label for label in labels if not is_tag(label)), None)
    if wrong is not None:
        raise InputError(
            f"The model has the label {wrong!r}, which is not a tag of named-entity "
            "recognition such as O or B-PER. Give a model that was trained with "
            "run_ner."
        )
    return "iobes" if any(label[0] in "ES" for label in labels) else "iob2"


class SchemeEvidence:
    """Detects the scheme of the tags of a file, and counts forbidden tags.

    The scheme is the one that the fewest tags violate; of equal numbers, the first of
    `SCHEMES`. In IOB1, a B is permitted only directly after an entity of the same type,
    and in IOB2, an I only after a B or I of the same type. Both have no E and no S. The
    scheme of a file with a few malformed sentences is thus detected correctly.
    """

    def __init__(self) -> None:
        self._forbidden: Counter[str] = Counter()

    def add(self, tags: Iterable[str]) -> None:
        """Adds the tags of a sentence."""
        last, last_type = OUTSIDE, ""
        for tag in (*tags, OUTSIDE):
            if tag != OUTSIDE or last != OUTSIDE:
                prefix, entity_type = split_tag(tag)
                needs_more = last in "BI"
                is_more = prefix in "IE"
                starts = not needs_more or last_type != entity_type
                count = self._forbidden
                only_iobes = prefix in "ES"
                count["iob2"] += only_iobes or (prefix == "I" and starts)
                count["iob1"] += only_iobes or (prefix == "B" and starts)
                count["iobes"] += (needs_more or is_more) and (starts or not is_more)
                last, last_type = prefix, entity_type

    def scheme(self) -> str:
        """Returns the detected scheme, one of `SCHEMES`."""
        return min(SCHEMES, key=self._forbidden.__getitem__)

    def num_forbidden(self, scheme: str | None = None) -> int:
        """Returns the number of tags that a scheme forbids, by default the detected scheme."""
        return self._forbidden[scheme or self.scheme()]
