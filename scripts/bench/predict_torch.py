#!/usr/bin/env python3
"""Times labels for new sentences by PyTorch and by ONNX Runtime, from the file that `regard bench train --save FILE` wrote.

Run: VENV/bin/python scripts/bench/predict_torch.py FILE --path eager --path onnx

The sentences are those of `regard bench predict`: the first 1 + (7·i mod 25) words of sentence i of the file's batches, of a
treebank all words. One at
a time nothing is padded. In bulk, sentences sorted by length share padded batches of at most 2048 words; padding is
masked (Transformer), packed away (bilstm) or stands behind the words (lstm, gru). Paths:

  eager     the twin of train_torch.py in inference mode
  onnx      that twin exported with its weights, by ONNX Runtime; not for bilstm, whose padding needs packing

Every path prints one JSON line with the fields that `regard bench predict --json` prints. Exit status: 0 done; 2 where a
path failed.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

import train_torch

PATHS = ("eager", "onnx")
BULK_WORDS = 2048


class Labeller(nn.Module):
    """The likeliest label of every word of a padded batch; `real` [batch, length] tells words from padding."""

    def __init__(self, tagger, case):
        super().__init__()
        self.tagger, self.model = tagger, case["model"]

    def recurrent(self, x, real):
        if real is None or self.model != "bilstm":
            return self.tagger.encoder(x)
        packed = nn.utils.rnn.pack_padded_sequence(x, real.sum(1), batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.tagger.encoder.rnn(packed)[0], batch_first=True)[0]

    def forward(self, words, real=None, distinct=None, chars=None):
        encode = self.tagger.encoder if self.model == "transformer" else self.recurrent
        return self.tagger.output(encode(self.tagger.embedded(words, distinct, chars), real)).argmax(-1)


def sentences_of(arrays, case):
    """Every sentence: its words, and the spelling of each where characters are read."""
    sentences = []
    for of_batch, spellings in train_torch.batches_of(arrays, case):
        for words, _, distinct in of_batch:
            i = len(sentences)
            end = min(1 + 7 * i % 25, case["length"]) if case["length"] else len(words)
            sentences.append((words[:end], [tuple(spellings[d].tolist()) for d in distinct] if spellings else None))
    return sentences


def inputs_of(sentences):
    """Sentences as one padded batch, the spelling of each word once."""
    places, rows = {}, []
    for words, spellings in sentences:
        distinct = [places.setdefault(spelling, len(places)) for spelling in spellings or []]
        rows.append((words, words, torch.tensor(distinct) if spellings else torch.zeros_like(words)))
    inputs = train_torch.inputs_of(rows, [torch.tensor(spelling) for spelling in places])
    del inputs["labels"]
    return inputs


def batches_of(sentences):
    """Sentences of about the same length as padded batches."""
    batches, batch = [], []
    for sentence in sorted(sentences, key=lambda sentence: len(sentence[0])):
        if batch and (len(batch) + 1) * len(sentence[0]) > BULK_WORDS:
            batches.append(batch)
            batch = []
        batch.append(sentence)
    return [inputs_of(batch) for batch in [*batches, batch]]


def exported(labeller, folder):
    """A function that labels by ONNX Runtime."""
    import onnxruntime

    path = pathlib.Path(folder) / "tagger.onnx"
    example = {"words": torch.zeros(2, 5, dtype=torch.long)}
    axes = {"words": {0: "batch", 1: "length"}}
    if labeller.model == "transformer":
        example["real"], axes["real"] = torch.ones(2, 5, dtype=torch.bool), axes["words"]
    if labeller.tagger.chars is not None:
        example["distinct"], axes["distinct"] = torch.zeros(2, 5, dtype=torch.long), axes["words"]
        example["chars"], axes["chars"] = torch.zeros(3, 4, dtype=torch.long), {0: "spellings", 1: "longest"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            labeller,
            tuple(example.values()),
            str(path),
            input_names=list(example),
            output_names=["labels"],
            dynamic_axes={**axes, "labels": axes["words"]},
            opset_version=17,
            dynamo=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def label(words, real=None, distinct=None, chars=None):
        real = torch.ones_like(words, dtype=torch.bool) if real is None else real
        given = {"words": words, "real": real, "distinct": distinct, "chars": chars}
        return torch.from_numpy(session.run(None, {name: given[name].numpy() for name in example})[0])

    return label


def seconds_of_pass(one_pass, budget):
    """The median over passes, at least three, after one that warms up."""
    one_pass()
    begin, times = time.perf_counter(), []
    while len(times) < 3 or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        one_pass()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@torch.inference_mode()
def measure(path, arguments, folder):
    """One line of the report."""
    arrays, texts = train_torch.start_of(arguments.start)
    case = texts["case"]
    labeller = Labeller(train_torch.twin(arrays, case, False), case).eval()
    if path == "onnx" and case["model"] == "bilstm":
        raise ValueError("padding of a bilstm cannot be exported")
    label = labeller if path == "eager" else exported(labeller, folder)
    sentences = sentences_of(arrays, case)
    batches = batches_of(sentences)
    alone = [inputs_of([sentence]) for sentence in sentences]
    labels = [label(**sentence)[0] for sentence in alone]
    one = seconds_of_pass(lambda: [label(**sentence) for sentence in alone], arguments.seconds)
    bulk = seconds_of_pass(lambda: [label(**batch) for batch in batches], arguments.seconds)
    return {
        "impl": "torch" if path == "eager" else "onnxruntime",
        "version": torch.__version__,
        "path": path,
        "case": {name: value for name, value in case.items() if name not in train_torch.ADDED},
        "sentences": len(sentences),
        "tokens": sum(len(words) for words, _ in sentences),
        "one_per_s": len(sentences) / one,
        "bulk_per_s": len(sentences) / bulk,
        "labels": torch.cat(labels).tolist(),
        "threads": torch.get_num_threads(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=pathlib.Path, metavar="FILE", help="what `regard bench train --save` wrote")
    parser.add_argument("--path", action="append", choices=PATHS, help="may be repeated; default: eager")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each way; default 2")
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.path or ["eager"]:
            try:
                print(json.dumps(measure(path, arguments, folder)), flush=True)
            except Exception as error:  # A path that does not work is reported, the others still run.
                train_torch.note(f"{arguments.start}, {path}: {type(error).__name__}: {str(error).splitlines()[:1]}")
                failed = True
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
