"""Writes crates/regard-metrics/src/translation/unicode.rs: the general categories P, S and N of Unicode.

    python scripts/unicode_categories.py

The categories are those of the module `regex`, with which sacreBLEU's tokenisation `intl` asks for them. Which version of Unicode that is depends
on the module's version; both stand at the top of the file.
"""

import argparse
import pathlib
from importlib import metadata

import regex

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATEGORIES = [("PUNCTUATION", "P"), ("SYMBOLS", "S"), ("NUMBERS", "N")]
WIDTH = 100


def boundaries(category):
    """First code point of each run inside the category, first one after it, and so on."""
    pattern = regex.compile(rf"\p{{{category}}}")
    found, inside = [], False
    for code in range(0x110000):
        # Half of a pair is no character.
        is_member = not 0xD800 <= code < 0xE000 and pattern.match(chr(code)) is not None
        if is_member != inside:
            found.append(code)
            inside = is_member
    assert not inside
    return found


def table(name, category):
    numbers = boundaries(category)
    lines, line = [], "   "
    for number in numbers:
        word = f" {number:#x},"
        if len(line) + len(word) > WIDTH:
            lines.append(line)
            line = "   "
        line += word
    lines.append(line)
    body = "\n".join(lines)
    return f"/// General category {category}.\n#[rustfmt::skip]\npub(crate) const {name}: [u32; {len(numbers)}] = [\n{body}\n];\n"


def main():
    parser = argparse.ArgumentParser(description="writes the table of Unicode's categories P, S and N")
    default = ROOT / "crates/regard-metrics/src/translation/unicode.rs"
    parser.add_argument("--out", type=pathlib.Path, default=default, metavar="FILE")
    out = parser.parse_args().out
    tables = "\n".join(table(*category) for category in CATEGORIES)
    out.write_text(
        f"""//! General categories of Unicode, as the Python module regex {metadata.version("regex")} knows them.
//!
//! Written by `python scripts/unicode_categories.py`. A table is the sorted list of the code points at which the
//! category begins or ends, beginning first: a character belongs to it if an odd number of them is not above it.

{tables}""",
        encoding="utf-8",
    )


main()
