"""The codes of a problem's `errors`: one sentence for each thing that can be wrong at a place.

The first list is the platform's own. The second is what the built-in models find in inputs; a
model from elsewhere may use further ones, and says in `hint` what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

OF_REQUESTS: Mapping[str, str] = {
    "artifact_not_found": "No artifact of yours has this id.",
    "duplicate_key": "The object holds this key twice.",
    "duplicate_parameter": "The query holds this parameter twice.",
    "invalid": "The value is not what this place takes; `expected` says what is.",
    "invalid_header": "The header holds something that is not taken.",
    "invalid_name": "The name is empty, too long, or holds what a file name must not.",
    "lone_surrogate": "The text holds half a character of UTF-16.",
    "missing_field": "A field that is needed is not there.",
    "not_a_multiple": "The number is no multiple of what is asked.",
    "not_a_number": "NaN and Infinity are no JSON.",
    "not_allowed": "The value is none of those that are taken.",
    "not_an_object": "The body is JSON, and no object.",
    "not_unique": "The list holds an item twice.",
    "nul_character": "The text holds NUL, which no text here may.",
    "number_out_of_range": "The number does not fit into 64 bits.",
    "pattern_mismatch": "The text holds characters that do not belong there.",
    "too_deep": "The body is nested too deep.",
    "too_few_fields": "The object holds too few fields.",
    "too_few_items": "The list is too short.",
    "too_large": "The number is too large.",
    "too_long": "The text or sequence is too long.",
    "too_many_fields": "The object holds too many fields.",
    "too_many_items": "The list is too long.",
    "too_short": "The text or sequence is too short.",
    "too_small": "The number is too small.",
    "unknown_field": "Nobody knows this field; `expected` names those that are known.",
    "unknown_model": "No live model has this name.",
    "unknown_parameter": "Nobody knows this parameter of the query.",
    "wrong_format": "The text is not of the format that is asked.",
    "wrong_type": "The value is of another JSON type than asked.",
}

OF_MODELS: Mapping[str, str] = {
    "ambiguous_residue": "A letter stands for several amino acids, or for none of the 20.",
    "backbone_atom_missing": "A residue lacks one of the backbone atoms that are needed.",
    "chain_not_found": "The structure has no chain of this id; `expected` names those it has.",
    "chain_paired_twice": "A chain was given two partners.",
    "chain_separator": "One field holds several chains.",
    "chains_ambiguous": "It does not follow from the files which chains belong together.",
    "file_too_large": "The file is larger than the model reads, unpacked.",
    "format_unsupported": "The file is of a format that the model does not read.",
    "gap_in_query": "The sequence holds gaps, as an alignment does.",
    "gzip_broken": "The file is compressed and cannot be unpacked.",
    "internal_stop": "The sequence holds a stop before its end.",
    "invalid_residue": "A character is no amino acid.",
    "looks_like_nucleotide": "The sequence looks like DNA or RNA, and a protein is asked for.",
    "no_atoms": "The file holds no atoms of a protein.",
    "not_alignable": "The structures have too little in common to be laid on each other.",
    "pdb_line_unreadable": "A line of the file is no record of an atom.",
    "several_sequences": "One field holds several sequences.",
    "too_many_sequences": "So many sequences do not fit into one answer.",
}

FINDINGS: Mapping[str, str] = {**OF_REQUESTS, **OF_MODELS}
