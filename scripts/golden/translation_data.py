"""Golden values for translations of real sentences, written to translation_data.json beside this file.

    python scripts/golden/translation_data.py --data ../shared/data

sacreBLEU scores what can be made of two data sets without a translation system. Of the data sets only the scores are kept here.

    multi30k   the references of test_2016_flickr, disturbed: of line i (from 0) the words j with (i + j) mod 7 = 0 are left out, and in every fifth
               line the last of the rest moves to the front
    tatoeba    where two lines after each other have the same English side, the first Chinese side is the translation and the second the reference
"""

import argparse
import gzip
import json
import logging
import pathlib
import platform
from importlib import metadata

from sacrebleu.metrics import BLEU, CHRF, TER

# It warns of sentence BLEU without effective order, which is asked for on purpose here.
logging.disable(logging.WARNING)


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip() for line in file]


def disturbed(number, line):
    words = [word for place, word in enumerate(line.split(" ")) if (number + place) % 7 > 0]
    if number % 5 == 0 and words:
        words.insert(0, words.pop())
    return " ".join(words)


def multi30k(data, language):
    references = lines(data / f"multi30k-de-en/test_2016_flickr.{language}.gz")
    return [disturbed(i, line) for i, line in enumerate(references)], references


def tatoeba(data):
    rows = [line.split("\t") for line in lines(data / "tatoeba-cmn-eng/cmn.txt.gz")]
    pairs = [(a[1], b[1]) for a, b in zip(rows, rows[1:]) if a[0] == b[0]]
    return [a for a, _ in pairs], [b for _, b in pairs]


METRICS = {
    "bleu": BLEU(),
    "bleu intl": BLEU(tokenize="intl"),
    "bleu zh": BLEU(tokenize="zh"),
    "chrf": CHRF(),
    "chrf++": CHRF(word_order=2),
    "ter": TER(),
    "ter normalized asian": TER(normalized=True, asian_support=True),
}


def main():
    parser = argparse.ArgumentParser(description="writes translation_data.json: scores of real sentences by sacreBLEU")
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--data", type=pathlib.Path, required=True, metavar="DIR", help="the folder of the data sets")
    parser.add_argument("--out", type=pathlib.Path, default=here, metavar="DIR")
    arguments = parser.parse_args()
    texts = {
        "multi30k de": multi30k(arguments.data, "de"),
        "multi30k en": multi30k(arguments.data, "en"),
        "tatoeba": tatoeba(arguments.data),
    }
    cases = []
    for corpus, (translations, references) in texts.items():
        for name, metric in METRICS.items():
            score = metric.corpus_score(translations, [references])
            # 4 decimals of each segment's score, added up: one number that feels every segment.
            segments = [metric.sentence_score(t, [r]) for t, r in zip(translations, references)]
            cases.append(
                {
                    "name": f"{corpus}, {name}",
                    "corpus": corpus,
                    "metric": name,
                    "line": str(score),
                    "segments": len(segments),
                    "ten_thousandths": sum(round(10000 * s.score) for s in segments),
                }
            )
    header = {
        "sacrebleu": metadata.version("sacrebleu"),
        "python": platform.python_version(),
        "command": "python scripts/golden/translation_data.py --data ../shared/data",
    }
    body = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in cases)
    text = f'{{"header": {json.dumps(header)},\n"cases": [\n{body}\n]}}\n'
    json.loads(text)
    (arguments.out / "translation_data.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
