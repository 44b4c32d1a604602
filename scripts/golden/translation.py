"""Golden values for regard_metrics::translation, written to translation.json beside this file.

    python scripts/golden/translation.py

sacreBLEU scores small corpora under all kinds of options. The sentences come from the word lists below: a short grammar, noise that a translation
system could make, and characters that tokenisers stumble over. No sentence is taken from a data set.

    corpora    hypotheses and three references for each
    cases      corpus, metric, options, the printed line, the signature, the score, and each segment's score with four decimals
    tokens     lines and what each tokeniser of BLEU makes of them
    bootstrap  two systems, the segments drawn, and what sacreBLEU's paired bootstrap says
    categories code points of Unicode's categories P, S and N: how many, and their sum
"""

import argparse
import itertools
import json
import logging
import os
import pathlib
import platform
import random
from importlib import metadata

import numpy
import regex
from sacrebleu.metrics import BLEU, CHRF, TER, lib_ter
from sacrebleu.significance import PairedTest

# It warns of sentence BLEU without effective order, which is asked for on purpose here.
logging.disable(logging.WARNING)

SEED = 20260117
N_REFERENCES = 3
BOOTSTRAP_SEED = 12345
N_RESAMPLES = 41

ENGLISH = {
    "D": "the a one this every some her our".split(),
    "A": "old red quiet broken very-long north-eastern well-known empty early".split(),
    "N": "bridge letter captain kitchen river engine violin neighbour harbour lamp committee".split(),
    "V": "crosses forgets repairs paints carries won't-sell doesn't-find watches measured has-lost".split(),
    "P": "under behind near after without beside".split(),
    "T": "yesterday at_noon on_Monday in_1997 for_3.5_hours twice in_the_end".split(),
}
GERMAN = {
    "D": "der die ein jede unsere".split(),
    "A": "alte größte leise kaputte süße übrige".split(),
    "N": "Brücke Straße Küchentür Flußmündung Geige Äußerung Löffel".split(),
    "V": "überquert vergißt malt trägt verläßt mißt".split(),
    "P": "unter hinter nach ohne neben".split(),
    "T": "gestern am_Montag 1997 z._B._abends 3,5_Stunden".split(),
}
CHINESE = {
    "D": list("这那每一"),
    "A": "旧的 红色的 安静的 很长的 空的".split(),
    "N": "桥 信件 船长 厨房 河流 发动机 小提琴 邻居".split(),
    "V": "走过 忘记了 修理 画 带着 看见".split(),
    "P": "在 从 跟 没有".split(),
    "T": "昨天 中午 星期一 1997年 3.5小时".split(),
}
ENDINGS = [".", ".", ".", "!", "?", "...", ";", " .", ""]
WORD_MARKS = [",", ";", ":", " -", " --", '"', "'", ")", "(", "/", "'s"]
UNICODE_MARKS = list("„“”‚‘’«»‹›–—…·•†‰′″¿¡、。，！？；：（）「」『』【】〈〉・｡｢｣‧‐‑⁄∕՝؟،۔।॥༎៖᠃⁂⸮﹏﹐﹗＂＆－／＠［＿｛～") + ["⁇", "‼"]
SYMBOLS = list("€£¥$+<=>^`|~°±×÷¬¦§©®™→←≤≠∞∑√∂♥★☃☎✓✗➔⇒⌘¨´¸˜¢₽₿℃№ℓ㎏㈱㊗〒￥＄＋＜＝＞＾｀｜")
NUMBERS = "3 3.5 1,000,000.00 1.000,5 .5 5. 3,. 1990-95 -7 10% 1/2 3:45 ½ ² Ⅳ ٣٫٥ ٣. ४५ ３．５ 一千 ①. ፩".split()
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧", "🇩🇪", "❤️", "1️⃣", "☺", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
SCRIPTS = "Σίσυφος ΟΔΟΣ İstanbul ISPARTA ẞCHULE Ǆep Привет, مرحبا؟ नमस्ते। สวัสดี 안녕하세요? ひらがな カタカナ、 ｶﾅ 龍龜 豈更 𠀀𪜀 ㄅㄆ ⽔⼈ 〇㍿ é́ ﬁn A̧B \u2a6d\u2a6e \u2001x \u2fa1\u2fb0 Ⓐⓑ".split()
BLANKS = [" ", "  ", "\t", "\u00a0", "\u3000", "\u2009", "\u202f", "\u1680", "\u2028", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\r"]
NO_BLANKS = ["\u200b", "\u200d", "\ufeff", "\u00ad", "\x00", "\x1b"]
MARKUP = ["&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "&apos;", "&#39;", "&", "<skipped>", "<b>", "AT&T", "&amp;quot;s"]
BREAKS = ["\n", "-\n", "\n-", ".\n", "'s\n", "\n.", "\n\n"]


class Writer:
    """Random sentences."""

    def __init__(self, rng):
        self.rng = rng

    def phrase(self, words):
        pick = self.rng.choice
        adjective = [pick(words["A"])] if self.rng.random() < 0.5 else []
        return [pick(words["D"]), *adjective, pick(words["N"])]

    def words(self, words):
        pick = self.rng.choice
        found = self.phrase(words) + [pick(words["V"])] + self.phrase(words)
        if self.rng.random() < 0.5:
            found += [pick(words["P"])] + self.phrase(words)
        if self.rng.random() < 0.5:
            found = [pick(words["T"])] + found if self.rng.random() < 0.5 else found + [pick(words["T"])]
        found = [word for part in found for word in part.replace("-", "-" if self.rng.random() < 0.5 else "_").split("_")]
        return found

    def noise(self, words, rate):
        """What a system gets wrong: words left out, doubled, replaced, exchanged, in the other case; a phrase elsewhere."""
        rng, found = self.rng, []
        for word in words:
            chance = rng.random() / rate if rate else 9
            if chance < 0.2:
                continue
            if chance < 0.35:
                found.append(word)
            if chance < 0.6:
                word = rng.choice(words)
            elif chance < 0.7:
                word = rng.choice([str.upper, str.lower, str.title])(word)
            found.append(word)
        if found and rng.random() < 2 * rate:
            start = rng.randrange(len(found))
            end = min(len(found), start + rng.choice([1, 2, 3, 5]))
            phrase = found[start:end]
            del found[start:end]
            at = rng.randrange(len(found) + 1)
            found[at:at] = phrase
        return found

    def mixed(self, words, extras, rate):
        """Extras between the words, or stuck to them."""
        rng, found = self.rng, []
        for word in words:
            if rng.random() < rate:
                extra = rng.choice(extras)
                word = rng.choice([f"{word}{extra}", f"{extra}{word}", f"{word} {extra}", extra, f"{extra}{word}{extra}"])
            found.append(word)
        return found

    def sentence(self, words, joint=" "):
        text = joint.join(words)
        return text[:1].upper() + text[1:] + self.rng.choice(ENDINGS)


def corpora():
    """(name, hypotheses, references), each reference stream as long as the hypotheses."""

    def build(name, n, make, rate=0.25, joint=" ", finish=None):
        rng = random.Random(f"{SEED} {name}")
        writer = Writer(rng)
        streams = [[] for _ in range(N_REFERENCES + 1)]
        for _ in range(n):
            words = make(writer)
            for number, stream in enumerate(streams):
                noisy = writer.noise(words, rate if number != 1 else rate / 4)
                text = writer.sentence(noisy, joint)
                stream.append(finish(rng, text) if finish else text)
        return name, streams[0], streams[1:]

    def extra(words, extras, rate=0.4):
        return lambda writer: writer.mixed(writer.words(words), extras, rate)

    def odd_blanks(rng, text):
        text = "".join(rng.choice(BLANKS + NO_BLANKS[:1]) if c == " " and rng.random() < 0.6 else c for c in text)
        return rng.choice(["", "", *BLANKS]) + text + rng.choice(["", "", *BLANKS])

    def with_breaks(rng, text):
        return "".join(rng.choice(BREAKS) if c == " " and rng.random() < 0.3 else c for c in text)

    def sometimes_nothing(rng, text):
        return rng.choice(["", " ", "\t\u00a0", text, text, text])

    yield build("english", 9, lambda w: w.words(ENGLISH))
    yield build("english marks", 9, extra(ENGLISH, WORD_MARKS))
    yield build("english near", 9, lambda w: w.words(ENGLISH), rate=0.05)
    yield build("english far", 9, lambda w: w.words(ENGLISH), rate=0.9)
    yield build("german", 9, lambda w: w.words(GERMAN))
    yield build("german marks", 9, extra(GERMAN, WORD_MARKS + list("„“‚‘»«–…")))
    yield build("chinese", 9, lambda w: w.words(CHINESE), joint="")
    yield build("chinese mixed", 9, extra(CHINESE, SYMBOLS + NUMBERS + list("，。！？、；：“”（）") + ["GDP", "iPhone 15"]), joint="")
    yield build("numbers", 9, extra(ENGLISH, NUMBERS, 0.7))
    yield build("unicode marks", 9, extra(GERMAN, UNICODE_MARKS, 0.7))
    yield build("symbols", 9, extra(ENGLISH, SYMBOLS, 0.7))
    yield build("emoji", 7, extra(ENGLISH, EMOJI, 0.6))
    yield build("scripts", 9, extra(GERMAN, SCRIPTS, 0.7))
    yield build("markup", 7, extra(ENGLISH, MARKUP, 0.6))
    yield build("blanks", 9, extra(ENGLISH, NO_BLANKS + WORD_MARKS, 0.2), finish=odd_blanks)
    yield build("line breaks", 7, extra(ENGLISH, WORD_MARKS, 0.3), finish=with_breaks)
    yield build("empty lines", 11, lambda w: w.words(ENGLISH), finish=sometimes_nothing)
    yield build("all of it", 11, extra(CHINESE | ENGLISH, UNICODE_MARKS + SYMBOLS + NUMBERS + EMOJI + SCRIPTS + MARKUP, 0.8), finish=odd_blanks)
    yield build("soup", 7, lambda w: [w.rng.choice(UNICODE_MARKS + SYMBOLS + NUMBERS + WORD_MARKS) for _ in range(19)], joint="")
    yield build("short", 13, lambda w: w.words(ENGLISH)[: w.rng.choice([1, 1, 2, 3])], rate=0.3)
    yield build("few words", 5, lambda w: [w.rng.choice("abcde") for _ in range(31)], rate=0.4)
    yield build("long moves", 3, lambda w: [w.rng.choice(ENGLISH["N"] + ENGLISH["A"] + GERMAN["N"]) for _ in range(83)], rate=0.3)

    # Nothing matches; everything does; one word does.
    text = ["The lamp burns .", "A violin", "x"]
    yield "no match", ["qu ux", "zz", "?"], [text, text, text]
    yield "the same", text + ["one more line, with marks!"], [text + ["one more line, with marks!"]] * 3
    yield "one word", ["the the the the the", "a b", "c"], [["the cat", "b a", "c"], ["the the cat", "a", "c c"], ["", "", ""]]
    yield "nothing", ["", " "], [["", ""], ["", "\u3000"], ["", ""]]
    yield "nothing said", ["", ""], [["something", "to say"], ["so", ""], ["three words here", "and four words here"]]
    yield "nothing asked", ["something", "to say"], [["", ""], ["", ""], ["", ""]]
    # Ties: precisions of 1/16 and the like stand in the middle between two printed digits.
    sixteen = " ".join("abcdefghijklmnop")
    yield "ties", [sixteen, "a b c d e f g h"], [["a b z", "h"], ["p q", "a b c d"], ["k", "x y z"]]
    # Very long and very unequal.
    echo = " ".join(["ha"] * 211)
    yield "echo", [echo, "ha " * 61 + "ho", "ho"], [["ha " * 97, "ho " + "ha " * 61, echo], ["ha", "ha ha", "ho ha"], ["he " + echo, echo, "ha ho"]]
    count = " ".join(f"w{i}" for i in range(120))
    moved = " ".join([f"w{i}" for i in range(60, 120)] + [f"w{i}" for i in range(60)])
    yield "unequal", ["w119", count, moved, "w7 w3"], [[count, "w5", count, count], [moved, "w9 w8", "w61", moved], ["w0", count, moved, "w3 w7"]]


def ter_corpora():
    """What only TER feels: the limits of its search, and shifts that look equally good."""

    def streams(name, pairs):
        hypotheses, references = zip(*pairs)
        others = [[""] * len(pairs)] * (N_REFERENCES - 1)
        return name, [" ".join(h) for h in hypotheses], [[" ".join(r) for r in references], *others]

    # A phrase moved by nearly 50 words, to either side.
    plain = [f"{i:x}" for i in range(113)]
    pairs = []
    for far in (49, 50, 51):
        moved = plain[:20] + plain[23 : 23 + far] + plain[20:23] + plain[23 + far :]
        pairs += [(moved, plain), (plain, moved)]
    yield streams("moves of fifty", pairs)

    # So many words before that the rest stands off the diagonal by nearly the 25 words of the beam.
    pairs = []
    for off in (23, 24, 25, 26):
        late = [f"x{i}" for i in range(off)] + plain[: 97 - off]
        pairs += [(late, plain[:97]), (plain[:97], late)]
    yield streams("off the diagonal", pairs)

    # Exchanged blocks of words, chosen so that it matters that the search ends after 1000 shifts, and not after 30 more or fewer.
    pairs = []
    for number in (24, 39, 2, 40, 19):
        rng = random.Random(f"{number} tries")
        alphabet = "abcdefghijklmnop"[: rng.choice([8, 10, 12, 16])]
        reference = [rng.choice(alphabet) for _ in range(rng.choice([40, 55, 70]))]
        size = rng.choice([3, 4, 5, 6])
        blocks = [reference[i : i + size] for i in range(0, len(reference), size)]
        rng.shuffle(blocks)
        hypothesis = [word for block in blocks for word in block]
        assert len({edits_with_limit(hypothesis, reference, limit) for limit in (970, 1000, 1030)}) > 1
        pairs.append((hypothesis, reference))
    yield streams("a thousand shifts", pairs)

    rng = random.Random(f"{SEED} ties")
    texts = [[[rng.choice("abc") for _ in range(rng.randint(5, 13))] for _ in range(2)] for _ in range(61)]
    yield streams("ties of shifts", texts)


def edits_with_limit(hypothesis, reference, limit):
    usual = lib_ter._MAX_SHIFT_CANDIDATES
    lib_ter._MAX_SHIFT_CANDIDATES = limit
    edits, _ = lib_ter.translation_edit_rate(hypothesis, reference)
    lib_ter._MAX_SHIFT_CANDIDATES = usual
    return edits


BLEU_OPTIONS = [
    {"tokenize": tokenize, "smooth_method": smooth, "smooth_value": value, "lowercase": lowercase, "effective_order": effective}
    for smooth, value in [("exp", None), ("floor", None), ("add-k", None), ("none", None), ("floor", 0.37), ("add-k", 2.5)]
    for lowercase, effective in [(False, False), (False, True), (True, True), (True, False)]
    for tokenize in ["13a", "intl", "zh", "char", "none"]
]
CHRF_OPTIONS = [
    {"char_order": char_order, "word_order": word_order, "beta": beta, "lowercase": lowercase, "whitespace": whitespace}
    for char_order, word_order, beta in [(6, 0, 2), (6, 2, 2), (6, 1, 2), (4, 2, 1), (1, 0, 3), (9, 3, 2)]
    for lowercase in [False, True]
    for whitespace in [False, True]
]
TER_OPTIONS = [
    {"normalized": normalized, "no_punct": no_punct, "asian_support": asian, "case_sensitive": case}
    for case, asian, no_punct, normalized in itertools.product([False, True], repeat=4)
]
METRICS = {"bleu": (BLEU, BLEU_OPTIONS, 7), "chrf": (CHRF, CHRF_OPTIONS, 4), "ter": (TER, TER_OPTIONS, 4)}


def cases(all_corpora, for_ter):
    """For each corpus some options of each metric, another part of the list each time, and 1 to 3 references in turn."""
    for corpus in for_ter:
        yield case(corpus, "ter", 0, TER_OPTIONS[0], 1)
    for name, (_, options, n_each) in METRICS.items():
        # 7 is prime to the lengths of the lists, so that all options come up.
        turns = itertools.cycle(options[7 * i % len(options)] for i in range(len(options)))
        n_references = itertools.cycle([1, 2, 3, 1])
        for corpus in all_corpora:
            # The default first.
            for number, chosen in enumerate([options[0], *itertools.islice(turns, n_each)]):
                yield case(corpus, name, number, chosen, 1 if number == 0 else next(n_references))


def case(corpus, metric_name, number, options, n_references):
    name, hypotheses, references = corpus
    streams = references[:n_references]
    metric = METRICS[metric_name][0](**options)
    score = metric.corpus_score(hypotheses, streams)
    segments = [metric.sentence_score(h, list(r)) for h, *r in zip(hypotheses, *streams)]
    return {
        "name": f"{name}, {metric_name} {number}",
        "corpus": name,
        "metric": metric_name,
        "options": {key: value for key, value in options.items() if value is not None},
        "references": len(streams),
        "line": str(score),
        "signature": str(metric.get_signature()),
        "score": score.score,
        "segments": " ".join(s.format(width=4, score_only=True) for s in segments),
    }


def tokens(all_corpora):
    tokenisers = {name: BLEU(tokenize=name).tokenizer for name in ["13a", "intl", "zh", "char", "none"]}
    lines = ["", ".", "..", "...", "....", "3.", ".3", "3..", "..3", "3-", "-3", "3--", ".,.,", "3.,3", "a.,3", "3,.a", "€3.", "“3.”", "3“", "½.½", "&amp;amp;"]
    lines += ["".join(part) for part in itertools.product("a3.", "-.,", "3x", ["", "."])]
    for name, hypotheses, _ in all_corpora:
        if name not in ("echo", "unequal", "long moves", "few words"):
            lines += hypotheses[:2]
    # Every character in the neighbourhood of the ends of zh's ranges.
    ends = [0x2001, 0x2A6D, 0x2E80, 0x2FDF, 0x2FF0, 0x3040, 0x30FF, 0x3100, 0x3130, 0x31A0, 0x31C0, 0x31F0, 0x3200, 0x33FF, 0x4DB5, 0x4DBF, 0x9FA5, 0x9FBB, 0x9FFF]
    ends += [0xF900, 0xFA2D, 0xFA30, 0xFA6A, 0xFA70, 0xFAD9, 0xFE10, 0xFE1F, 0xFE30, 0xFE4F, 0xFF00, 0xFFEF, 0x20000, 0x2A6D6, 0x2F800, 0x2FA1D]
    lines += ["x" + "x".join(chr(code + i) for i in (-1, 0, 1)) + "x" for code in ends]
    for line in dict.fromkeys(lines):
        yield {"line": line, **{name: " ".join(tokenise(line.rstrip()).split()) for name, tokenise in tokenisers.items()}}


def bootstrap(all_corpora):
    os.environ["SACREBLEU_SEED"] = str(BOOTSTRAP_SEED)
    streams = {name: (hypotheses, references) for name, hypotheses, references in all_corpora}
    for name, metric in [("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())]:
        for corpus in ["english", "english near", "german marks", "short"]:
            hypotheses, references = streams[corpus]
            # The third reference plays the other system.
            systems = [("baseline", hypotheses), ("system", references[2])]
            drawn = numpy.random.default_rng(BOOTSTRAP_SEED).choice(len(hypotheses), size=(N_RESAMPLES, len(hypotheses)), replace=True)
            signatures, scores = PairedTest(systems, {name: metric}, references[:2], "bs", N_RESAMPLES)()
            [signature] = signatures.values()
            [results] = [value for key, value in scores.items() if key != "System"]
            assert signature.info["bs"] == N_RESAMPLES
            yield {
                "name": f"{corpus}, {name}",
                "corpus": corpus,
                "metric": name,
                "signature": str(signature),
                "drawn": [" ".join(map(str, row)) for row in drawn.tolist()],
                "results": [[r.score, float(r.mean), float(r.ci)] for r in results],
                "p_value": results[1].p_value,
            }


def categories():
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for category in "PSN":
        pattern = regex.compile(rf"\p{{{category}}}")
        codes = [ord(c) for c in characters if pattern.match(c)]
        yield category, [len(codes), sum(codes)]


def main():
    parser = argparse.ArgumentParser(description="writes translation.json: expected values computed by sacreBLEU")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent, metavar="DIR")
    arguments = parser.parse_args()
    all_corpora, for_ter = list(corpora()), list(ter_corpora())
    sections = {
        "corpora": [{"name": n, "hypotheses": h, "references": r} for n, h, r in all_corpora + for_ter],
        "cases": list(cases(all_corpora, for_ter)),
        "tokens": list(tokens(all_corpora)),
        "bootstrap": list(bootstrap(all_corpora)),
    }
    for entries in sections.values():
        names = [entry.get("name", entry.get("line")) for entry in entries]
        assert len(set(names)) == len(names), "two entries share a name"
    header = {
        "sacrebleu": metadata.version("sacrebleu"),
        "regex": metadata.version("regex"),
        "python": platform.python_version(),
        "seed": SEED,
        "command": "python scripts/golden/translation.py",
    }
    text = f'{{"header": {json.dumps(header)},\n"categories": {json.dumps(dict(categories()))}'
    for name, entries in sections.items():
        body = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in entries)
        text += f',\n"{name}": [\n{body}\n]'
    text += "}\n"
    json.loads(text)
    (arguments.out / "translation.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
