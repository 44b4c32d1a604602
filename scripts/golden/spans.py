"""Golden values for regard-metrics, written to spans.json beside this file.

    python scripts/golden/spans.py --conlleval conlleval.pl

Three outside programs score the same tag sequences, most of them random and about half of them ill formed:

- seqeval 1.2.2 with mode='strict' and a scheme, and with its default mode;
- the perl script of the CoNLL-2000 shared task, version 2004-01-26 (https://www.cnts.ua.ac.be/conll2000/chunking/conlleval.txt),
  which has no licence and so is not kept here;
- scikit-learn, for scores of one label a token.

Where a program cannot read a case (seqeval raises for tags outside the scheme and where there is no span at all; the perl
script knows no S), its entry is null.
"""

import argparse
import json
import pathlib
import platform
import random
import re
import subprocess
import warnings
from importlib import metadata

import numpy
import sklearn
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support
from seqeval.metrics import accuracy_score as token_accuracy
from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB1, IOB2, IOBES, Entities

warnings.filterwarnings("ignore")

SEED = 20240126
SCHEMES = {"iob1": IOB1, "iob2": IOB2, "iobes": IOBES}
PREFIXES = {"iob1": "BI", "iob2": "BI", "iobes": "BIES"}
TYPES = ["LOC", "ORG", "PER", "Ereignis-lang", "Äußerung"]


def well_formed(rng, scheme, length, types):
    """Random spans, encoded."""
    tags = ["O"] * length
    at, before = 0, None
    while at < length:
        if rng.random() < 0.45:
            at, before = at + 1, None
            continue
        end = min(length, at + rng.choice([1, 1, 2, 3]))
        kind = rng.choice(types)
        for i in range(at, end):
            if scheme == "iob1":
                prefix = "B" if i == at and before == kind else "I"
            elif scheme == "iob2":
                prefix = "B" if i == at else "I"
            else:
                prefix = "S" if end - at == 1 else "B" if i == at else "E" if i == end - 1 else "I"
            tags[i] = f"{prefix}-{kind}"
        at, before = end, kind
    return tags


def disturbed(rng, scheme, tags, types, rate):
    """The same with some tags replaced by any tag of the scheme, so that most come out ill formed."""
    alphabet = ["O"] + [f"{p}-{t}" for p in PREFIXES[scheme] for t in types]
    return [rng.choice(alphabet) if rng.random() < rate else tag for tag in tags]


def random_cases(rng):
    for scheme in SCHEMES:
        for number in range(9):
            types = TYPES[: 2 + number % 4]
            gold, predicted = [], []
            for _ in range(6):
                length = rng.choice([1, 2, 5, 7, 11])
                tags = well_formed(rng, scheme, length, types)
                guess = well_formed(rng, scheme, length, types)
                # Keep most of the gold, else almost no span is right.
                guess = [g if rng.random() < 0.8 else p for g, p in zip(tags, guess)]
                if number % 3 > 0:
                    guess = disturbed(rng, scheme, guess, types, 0.15)
                if number % 3 > 1:
                    tags = disturbed(rng, scheme, tags, types, 0.15)
                gold.append(tags)
                predicted.append(guess)
            yield f"{scheme} random {number}", scheme, gold, predicted


def hand_made_cases():
    def case(name, scheme, *pairs):
        return name, scheme, [g.split() for g, _ in pairs], [p.split() for _, p in pairs]

    yield case("perfect", "iob2", ("B-X I-X O B-Y", "B-X I-X O B-Y"))
    yield case("nothing predicted", "iob2", ("B-X I-X O B-Y", "O O O O"))
    yield case("nothing to find", "iob2", ("O O O O", "B-X I-X O B-Y"))
    yield case("no span at all", "iob2", ("O O", "O O"))
    yield case("I after O", "iob2", ("O I-X I-X", "O B-X I-X"))
    yield case("I after another type", "iob2", ("B-X I-Y I-Y", "B-X B-Y I-Y"))
    yield case("B between chunks of one type", "iob1", ("I-X B-X I-X", "I-X I-X I-X"))
    yield case("B where IOB1 has none", "iob1", ("O B-X B-Y I-Y B-Y", "O I-X I-Y I-Y B-Y"))
    yield case("too early, too late", "iob2", ("B-X I-X I-X O", "B-X I-X O O"), ("B-X O O O", "B-X I-X O O"))
    yield case("span at a sentence's end", "iob2", ("O B-X", "O B-X"), ("I-X O", "I-X O"), ("B-X", "B-X"))
    yield case("tags without type", "iob2", ("B I O B", "B I O I"), ("O O", "B O"))
    yield case("type 0", "iob2", ("B-0 I O B-X", "B I-0 O B-X"))
    yield case("hyphens around the type", "iob2", ("B--X- I-X O B-X-Y", "B-X I--X O B-X-Y"))
    yield case("ties in the last digit", "iob2", *[("B-X", "B-X")], *[("B-X", "O")] * 31)
    yield case("E without S", "iob2", ("E-X E-X I-X E-X O", "B-X B-X B-X I-X O"), ("E-X B-X", "E-X I-X"))
    yield case("brackets", "iob2", ("[-X ]-X O I-X [-X O", "B-X B-X O I-X I-X O"), ("I-X [-X O", "I-X [-X O"))
    yield case("unclosed IOBES", "iobes", ("B-X I-X O S-X", "B-X E-X O S-X"), ("B-X B-X E-X", "S-X B-X E-X"))
    yield case("touching IOBES", "iobes", ("B-X E-X B-X E-X S-X", "B-X E-X B-X E-X S-X"), ("S-X S-X", "S-X E-X"))


def table(gold, predicted, correct_counts, **options):
    report = classification_report(gold, predicted, digits=4, **options)
    numbers = classification_report(gold, predicted, output_dict=True, **options)
    averages = {}
    for name in ("micro", "macro", "weighted"):
        row = numbers.pop(f"{name} avg")
        averages[name] = [float(row["precision"]), float(row["recall"]), float(row["f1-score"]), int(row["support"])]
    types = {
        name: [*correct_counts(name), float(row["precision"]), float(row["recall"]), float(row["f1-score"])]
        for name, row in numbers.items()
    }
    return {"types": types, "averages": averages, "report": report}


def strict(scheme, gold, predicted):
    try:
        found = [Entities(side, SCHEMES[scheme]) for side in (gold, predicted)]
    except (KeyError, ValueError):
        return None
    if not any(side.unique_tags for side in found):
        return None

    def counts(name):
        in_gold, in_predicted = (side.filter(name) for side in found)
        return len(in_gold), len(in_predicted), len(in_gold & in_predicted)

    return table(gold, predicted, counts, mode="strict", scheme=SCHEMES[scheme])


def lenient(scheme, gold, predicted):
    """
    Null where seqeval's default mode parts from the perl script, which is then the one to follow: it names untyped spans `_`,
    knows no brackets, and ends a span after each E (with the scheme iobes regard does that too).
    """
    tags = {tag for side in (gold, predicted) for tags in side for tag in tags}
    if not all(re.fullmatch(f"O|[{PREFIXES[scheme]}]-[^-0].*", tag) for tag in tags):
        return None
    found = [set(get_entities(side)) for side in (gold, predicted)]
    if not (found[0] or found[1]):
        return None

    def counts(name):
        in_gold, in_predicted = ({e for e in side if e[0] == name} for side in found)
        return len(in_gold), len(in_predicted), len(in_gold & in_predicted)

    return {**table(gold, predicted, counts), "accuracy": float(token_accuracy(gold, predicted))}


def conlleval(script, gold, predicted):
    tags = {tag for side in (gold, predicted) for tags in side for tag in tags}
    if any(tag.startswith("S") for tag in tags):
        return None
    lines = []
    for pair in zip(gold, predicted):
        lines += [f"word {g} {p}" for g, p in zip(*pair)] + [""]
    run = subprocess.run(["perl", script], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return run.stdout


def tag_cases(rng):
    for number in range(3):
        labels = ["ADJ", "ADP", "NOUN", "PROPN", "VERB", "X"][: 3 + number]
        gold = [rng.choice(labels) for _ in range(60)]
        # The last label is never predicted, and one that is not in the gold is.
        predicted = [g if rng.random() < 0.7 else rng.choice(labels + ["INTJ"]) for g in gold]
        predicted = [labels[0] if p == labels[-1] else p for p in predicted]
        names = sorted(set(gold) | set(predicted))
        per_label = precision_recall_fscore_support(gold, predicted, labels=names)
        averages = {
            name: [float(x) for x in precision_recall_fscore_support(gold, predicted, average=name)[:3]]
            for name in ("micro", "macro", "weighted")
        }
        yield {
            "gold": " ".join(gold),
            "predicted": " ".join(predicted),
            "accuracy": float(accuracy_score(gold, predicted)),
            "labels": {
                name: [int(s), float(p), float(r), float(f)] for name, p, r, f, s in zip(names, *per_label)
            },
            "averages": averages,
            "confusion": confusion_matrix(gold, predicted, labels=names).tolist(),
        }


def main():
    parser = argparse.ArgumentParser(description="Write spans.json beside this script.")
    parser.add_argument("--conlleval", required=True, help="the perl script of the CoNLL-2000 shared task")
    script = parser.parse_args().conlleval
    rng = random.Random(SEED)
    cases = []
    for name, scheme, gold, predicted in [*hand_made_cases(), *random_cases(rng)]:
        cases.append(
            {
                "name": name,
                "scheme": scheme,
                "gold": [" ".join(tags) for tags in gold],
                "predicted": [" ".join(tags) for tags in predicted],
                "strict": strict(scheme, gold, predicted),
                "lenient": lenient(scheme, gold, predicted),
                "conlleval": conlleval(script, gold, predicted),
            }
        )
    text = pathlib.Path(script).read_bytes()
    header = {
        "seqeval": metadata.version("seqeval"),
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "conlleval": re.search(rb"version:\s+(\S+)", text)[1].decode(),
        "seed": SEED,
        "dtype": "float64",
        "command": "python scripts/golden/spans.py --conlleval conlleval.pl",
        "span_types": "name: [gold, predicted, correct, precision, recall, f1]",
        "span_averages": "name: [precision, recall, f1, support]",
        "tag_labels": "name: [support, precision, recall, f1]",
    }
    # One case a line keeps differences readable and the file small.
    rows = [json.dumps(case, ensure_ascii=False) for case in cases]
    tags = [json.dumps(case) for case in tag_cases(rng)]
    out = pathlib.Path(__file__).with_suffix(".json")
    out.write_text(
        '{\n"header": '
        + json.dumps(header, indent=1)
        + ',\n"spans": [\n'
        + ",\n".join(rows)
        + '\n],\n"tags": [\n'
        + ",\n".join(tags)
        + "\n]\n}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
