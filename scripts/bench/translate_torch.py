"""PyTorch twins of the translation models: the speed of crates/regard-nn/examples/translate_speed.rs.

Same sizes, same lengths, same optimiser; batches padded, as PyTorch has them, sorted by nothing.
Usage: python scripts/bench/translate_torch.py bahdanau|luong|transformer train|decode [--threads N]
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, PAIRS, DROPOUT = 8000, 96, 0.1
PAD, BEGIN, END = 0, 1, 2


def drawn(seed, n):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, VOCAB, (8 + (i * 7) % 11,), generator=generator) for i in range(n)]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


class Bahdanau(nn.Module):
    def __init__(self, m=256, n=512, a=512, l=256):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, m), nn.Embedding(VOCAB, m)
        self.encoder = nn.GRU(m, n, bidirectional=True, batch_first=True)
        self.start = nn.Linear(n, n)
        self.query, self.key, self.v = nn.Linear(n, a, bias=False), nn.Linear(2 * n, a), nn.Linear(a, 1, bias=False)
        self.cell = nn.GRUCell(m + 2 * n, n)
        self.readout, self.output = nn.Linear(n + 2 * n + m, 2 * l), nn.Linear(l, VOCAB)
        self.dropout = nn.Dropout(DROPOUT)

    def encode(self, source):
        lengths = (source != PAD).sum(1)
        x = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.source(source)), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.encoder(x)
        memory = self.dropout(nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0])
        return {
            "memory": memory,
            "keys": self.key(memory),
            "blocked": source == PAD,
            "state": torch.tanh(self.start(last[1])),
        }

    def step(self, y, s):
        e = self.v(torch.tanh(self.query(s["state"])[:, None] + s["keys"]))[:, :, 0]
        a = torch.softmax(e.masked_fill(s["blocked"], -math.inf), dim=1)
        c = torch.bmm(a[:, None], s["memory"])[:, 0]
        read = torch.cat([s["state"], c, y], dim=1)
        return read, {**s, "state": self.cell(torch.cat([y, c], dim=1), s["state"])}

    def finish(self, read):
        t = self.readout(read).unflatten(-1, (-1, 2)).amax(-1)
        return self.output(self.dropout(t))

    def forward(self, source, inputs):
        s, reads = self.encode(source), []
        y = self.dropout(self.target(inputs))
        for t in range(inputs.shape[1]):
            read, s = self.step(y[:, t], s)
            reads.append(read)
        return self.finish(torch.stack(reads, dim=1))

    def next(self, tokens, s):
        read, s = self.step(self.target(tokens), s)
        return self.finish(read), s


class Luong(nn.Module):
    def __init__(self, e=256, n=512):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, e), nn.Embedding(VOCAB, e)
        self.encoder = nn.LSTM(e, n, num_layers=2, dropout=DROPOUT, batch_first=True)
        self.cells = nn.ModuleList([nn.LSTMCell(e + n, n), nn.LSTMCell(n, n)])
        self.key = nn.Linear(n, n, bias=False)
        self.combine, self.output = nn.Linear(2 * n, n, bias=False), nn.Linear(n, VOCAB)
        self.dropout = nn.Dropout(DROPOUT)

    def encode(self, source):
        lengths = (source != PAD).sum(1)
        x = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.source(source)), lengths, batch_first=True, enforce_sorted=False
        )
        packed, (h, c) = self.encoder(x)
        memory = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]
        return {
            "memory": memory,
            "keys": self.key(memory),
            "blocked": source == PAD,
            "h0": h[0],
            "c0": c[0],
            "h1": h[1],
            "c1": c[1],
            "fed": torch.zeros_like(h[0]),
        }

    def step(self, y, s):
        h0, c0 = self.cells[0](torch.cat([y, s["fed"]], dim=1), (s["h0"], s["c0"]))
        h1, c1 = self.cells[1](self.dropout(h0), (s["h1"], s["c1"]))
        e = torch.bmm(s["keys"], h1[:, :, None])[:, :, 0]
        a = torch.softmax(e.masked_fill(s["blocked"], -math.inf), dim=1)
        c = torch.bmm(a[:, None], s["memory"])[:, 0]
        fed = torch.tanh(self.combine(torch.cat([h1, c], dim=1)))
        return fed, {**s, "h0": h0, "c0": c0, "h1": h1, "c1": c1, "fed": fed}

    def finish(self, read):
        return self.output(self.dropout(read))

    forward = Bahdanau.forward
    next = Bahdanau.next


class Transformer(nn.Module):
    def __init__(self, d=256, heads=8, layers=3, d_ff=512):
        super().__init__()
        self.d = d
        self.source, self.target = nn.Embedding(VOCAB, d), nn.Embedding(VOCAB, d)
        options = {"nhead": heads, "dim_feedforward": d_ff, "dropout": DROPOUT, "batch_first": True}
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, **options), layers)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, **options), layers)
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        self.dropout = nn.Dropout(DROPOUT)
        angles = torch.arange(200)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        self.register_buffer("code", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def embed(self, table, ids, first=0):
        return self.dropout(table(ids) * math.sqrt(self.d) + self.code[first : first + ids.shape[1]])

    def forward(self, source, inputs):
        blocked = source == PAD
        memory = self.encoder(self.embed(self.source, source), src_key_padding_mask=blocked)
        future = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
        y = self.decoder(
            self.embed(self.target, inputs),
            memory,
            tgt_mask=future,
            tgt_is_causal=True,
            memory_key_padding_mask=blocked,
        )
        return F.linear(y, self.target.weight, self.bias)

    def encode(self, source):
        blocked = source == PAD
        memory = self.encoder(self.embed(self.source, source), src_key_padding_mask=blocked)
        s = {"blocked": blocked}
        for l, layer in enumerate(self.decoder.layers):
            w, b, d = layer.multihead_attn.in_proj_weight, layer.multihead_attn.in_proj_bias, self.d
            s[f"memory{l}"] = F.linear(memory, w[d:], b[d:])
            s[f"own{l}"] = memory.new_zeros(memory.shape[0], 0, 2 * d)
        return s

    def attend(self, q, kv, blocked, heads=8):
        k, v = kv.chunk(2, dim=-1)
        split = lambda x: x.unflatten(-1, (heads, -1)).transpose(1, 2)
        mask = None if blocked is None else ~blocked[:, None, None, :]
        y = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=mask)
        return y.transpose(1, 2).flatten(2)

    def next(self, tokens, s):
        s, d = dict(s), self.d
        y = self.embed(self.target, tokens[:, None], s["own0"].shape[1])
        for l, layer in enumerate(self.decoder.layers):
            own, cross = layer.self_attn, layer.multihead_attn
            qkv = F.linear(y, own.in_proj_weight, own.in_proj_bias)
            s[f"own{l}"] = torch.cat([s[f"own{l}"], qkv[:, :, d:]], dim=1)
            y = layer.norm1(y + own.out_proj(self.attend(qkv[:, :, :d], s[f"own{l}"], None)))
            q = F.linear(y, cross.in_proj_weight[:d], cross.in_proj_bias[:d])
            y = layer.norm2(y + cross.out_proj(self.attend(q, s[f"memory{l}"], s["blocked"])))
            y = layer.norm3(y + layer.linear2(F.relu(layer.linear1(y))))
        return F.linear(y[:, 0], self.target.weight, self.bias), s


def train(model):
    model.train()
    source, target = drawn(1, PAIRS), drawn(2, PAIRS)
    lengths = (target != PAD).sum(1)
    inputs = torch.cat([torch.full((PAIRS, 1), BEGIN), target], dim=1)
    goals = torch.cat([target, torch.full((PAIRS, 1), PAD)], dim=1)
    goals[torch.arange(PAIRS), lengths] = END
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    tokens, times = int(lengths.sum()) + PAIRS, []
    for _ in range(8):
        start = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        logits = model(source, inputs).flatten(0, 1)
        F.cross_entropy(logits, goals.flatten(), ignore_index=PAD, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        times.append(time.perf_counter() - start)
    return tokens / sorted(times[1:])[len(times[1:]) // 2]


def decode(model, n=64):
    model.eval()
    return n / sorted(search(model, n) for _ in range(3))[1]


@torch.no_grad()
def search(model, n, beam=5, length=20):
    source = drawn(5, n)
    start = time.perf_counter()
    s = {name: value.repeat_interleave(beam, 0) for name, value in model.encode(source).items()}
    scores = torch.full((n, beam), -math.inf)
    scores[:, 0] = 0.0
    tokens = torch.full((n * beam,), BEGIN)
    for _ in range(length):
        logits, s = model.next(tokens, s)
        log_p = F.log_softmax(logits, dim=-1).view(n, beam, VOCAB)
        log_p[:, :, END] = -math.inf
        scores, best = (scores[:, :, None] + log_p).flatten(1).topk(beam, dim=1)
        rows = (torch.arange(n)[:, None] * beam + best // VOCAB).flatten()
        tokens = (best % VOCAB).flatten()
        s = {name: value[rows] for name, value in s.items()}
    return time.perf_counter() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["bahdanau", "luong", "transformer"])
    parser.add_argument("what", choices=["train", "decode"])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = {"bahdanau": Bahdanau, "luong": Luong, "transformer": Transformer}[arguments.model]()
    if arguments.what == "train":
        count = sum(p.numel() for p in model.parameters())
        print(f"{arguments.model}: {count} parameters, {train(model):.0f} tokens/s")
    else:
        print(f"{arguments.model}: {decode(model):.1f} sentences/s")
