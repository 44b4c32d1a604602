#!/usr/bin/env python3
"""Times labels for new sentences by PyTorch and by ONNX Runtime, from the file that `regard bench train --save FILE` wrote.

Run: VENV/bin/python scripts/bench/predict_torch.py FILE --path eager --path onnx

The sentences are those of `regard bench predict`: the first 1 + (7·i mod 25) words of row i of the file's batches. One at
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
import torch.nn.functional as F
from torch import nn

import train_torch

PATHS = ("eager", "onnx")
BULK_WORDS = 2048


class Labeller(nn.Module):
    """The likeliest label of every word of a padded batch; `real` [batch, length] tells words from padding."""

    def __init__(self, tagger, case):
        super().__init__()
        self.tagger, self.model, self.heads = tagger, case["model"], case["heads"]

    def transformer(self, x, real):
        encoder = self.tagger.encoder
        mask = None if real is None else real[:, None, None, :]
        x = encoder.input_norm(encoder.input(x)) + encoder.code[: x.shape[1]]
        for layer in encoder.layers:
            parts = layer.qkv(layer.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=mask)
            x = x + layer.out(y.transpose(1, 2).flatten(2))
            x = x + layer.linear2(F.gelu(layer.linear1(layer.norm2(x))))
        return encoder.last(x)

    def recurrent(self, x, real):
        if real is None or self.model != "bilstm":
            return self.tagger.encoder(x)
        packed = nn.utils.rnn.pack_padded_sequence(x, real.sum(1), batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.tagger.encoder.rnn(packed)[0], batch_first=True)[0]

    def forward(self, words, real=None):
        encode = self.transformer if self.model == "transformer" else self.recurrent
        return self.tagger.output(encode(self.tagger.words(words), real)).argmax(-1)


def sentences_of(arrays, case):
    """The words of every sentence."""
    rows = arrays["batches.words"].long().flatten(0, 1)
    return [row[: min(1 + 7 * i % 25, case["length"])] for i, row in enumerate(rows)]


def batches_of(sentences):
    """Sentences of about the same length, padded: words and which of them are real, None where all are."""
    batches, batch = [], []
    for sentence in sorted(sentences, key=len):
        if batch and (len(batch) + 1) * len(sentence) > BULK_WORDS:
            batches.append(batch)
            batch = []
        batch.append(sentence)
    batches.append(batch)

    def padded(batch):
        lengths = torch.tensor([len(sentence) for sentence in batch])
        words = nn.utils.rnn.pad_sequence(batch, batch_first=True)
        real = torch.arange(words.shape[1])[None] < lengths[:, None]
        return words, None if bool(real.all()) else real

    return [padded(batch) for batch in batches]


def exported(labeller, folder):
    """A function that labels by ONNX Runtime."""
    import onnxruntime

    path = pathlib.Path(folder) / "tagger.onnx"
    words, real = torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.bool)
    masked = labeller.model == "transformer"
    names = ["words", "real"] if masked else ["words"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            labeller,
            (words, real) if masked else (words,),
            str(path),
            input_names=names,
            output_names=["labels"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in [*names, "labels"]},
            opset_version=17,
            dynamo=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def label(words, real=None):
        inputs = {"words": words.numpy()}
        if masked:
            inputs["real"] = (torch.ones_like(words, dtype=torch.bool) if real is None else real).numpy()
        return torch.from_numpy(session.run(None, inputs)[0])

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
    labels = [label(sentence[None])[0] for sentence in sentences]
    one = seconds_of_pass(lambda: [label(sentence[None]) for sentence in sentences], arguments.seconds)
    bulk = seconds_of_pass(lambda: [label(*batch) for batch in batches], arguments.seconds)
    return {
        "impl": "torch" if path == "eager" else "onnxruntime",
        "version": torch.__version__,
        "path": path,
        "case": {name: value for name, value in case.items() if name not in ("parameters", "operations")},
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
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
