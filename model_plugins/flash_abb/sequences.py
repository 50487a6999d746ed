"""Tidies up the sequences an agent sends, or says what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

from model_plugins.base import InvalidInput

STANDARD = frozenset("ACDEFGHIKLMNPQRSTVWY")
NUCLEOTIDES = frozenset("ACGTUN")
SHORTEST, LONGEST = 80, 160

Warn = Callable[[str, str], None]


def split(heavy: str, light: str, *, warn: Warn) -> tuple[str, str]:
    """Both chains, where the heavy field holds them as `VH:VL` and the light one says the same.

    Anything else stays as it is: which chain is meant then is not for us to guess.
    """
    parts = ["".join(part.split()) for part in heavy.split(":")]
    if len(parts) == 2 and all(parts) and "".join(light.split()) in (parts[1], ":".join(parts)):
        warn("complex_split", "/heavy: it was read as two chains, heavy and light, split at `:`.")
        return parts[0], parts[1]
    return heavy, light


def tidy(sequence: str, *, pointer: str, warn: Warn) -> str:
    """The sequence in upper case without blanks, byte order mark, FASTA header and final `*`.

    Raises InvalidInput.
    """
    tidied = "".join(_without_header(sequence, pointer=pointer, warn=warn).split())
    if tidied != tidied.upper():
        warn("uppercased", f"{pointer}: lower-case letters were read as upper case.")
        tidied = tidied.upper()
    if tidied.endswith("*"):
        warn("stop_stripped", f"{pointer}: the final `*` (stop) was removed.")
        tidied = tidied[:-1]
    _check_letters(tidied, pointer=pointer)
    _check_length(tidied, pointer=pointer)
    return tidied


def _without_header(sequence: str, *, pointer: str, warn: Warn) -> str:
    lines = sequence.strip("\ufeff \t\r\n").splitlines()
    if not lines or not lines[0].startswith(">"):
        return "\n".join(lines)
    warn("header_stripped", f"{pointer}: the FASTA header was removed.")
    return "\n".join(lines[1:])


def _check_letters(sequence: str, *, pointer: str) -> None:
    # Before the letters: of RNA the first U would be called an odd amino acid.
    if sequence and set(sequence) <= NUCLEOTIDES:
        raise InvalidInput(
            "The sequence has only the letters of nucleotides.",
            pointer=pointer,
            reason="looks_like_nucleotide",
            got="a nucleotide sequence",
            expected="amino acids in one-letter code",
            hint="Translate it first and send the protein sequence.",
        )
    for place, letter in enumerate(sequence, start=1):
        if letter not in STANDARD:
            raise _bad_letter(letter, place, pointer=pointer)


def _bad_letter(letter: str, place: int, *, pointer: str) -> InvalidInput:
    reasons = {
        "*": ("internal_stop", "Send one open reading frame without an internal stop."),
        "-": ("gap_in_query", "This looks like an alignment; remove the gaps."),
        ".": ("gap_in_query", "This looks like an alignment; remove the gaps."),
        ":": ("chain_separator", "Send each chain in its own field."),
        "|": ("chain_separator", "Send each chain in its own field."),
        ">": ("several_sequences", "Send one sequence per field."),
    }
    unknown = ("ambiguous_residue", "Replace it by one of the 20 standard amino acids.")
    if letter not in "UOBZJX":
        unknown = ("invalid_residue", "Use the one-letter codes of the 20 standard amino acids.")
    reason, hint = reasons.get(letter, unknown)
    return InvalidInput(
        f"Position {place} holds {letter!r}, which is no standard amino acid.",
        pointer=pointer,
        reason=reason,
        got={"position": place, "letter": letter},
        expected="".join(sorted(STANDARD)),
        hint=hint,
    )


def _check_length(sequence: str, *, pointer: str) -> None:
    length = len(sequence)
    if length < SHORTEST:
        reason, hint = "too_short", "Send the complete variable domain."
    elif length > LONGEST:
        reason, hint = "too_long", "Send the variable domain only, without the constant region."
    else:
        return
    raise InvalidInput(
        f"A variable domain has {SHORTEST} to {LONGEST} residues; this sequence has {length}.",
        pointer=pointer,
        reason=reason,
        got=length,
        expected=[SHORTEST, LONGEST],
        hint=hint,
    )
