"""Expected values of the layers, losses, optimisers and schedules, from PyTorch.

Sequences are packed: the tokens of all items follow one another in x [N, D], and `lengths` says
where each item ends. Nothing is padded. Run: python scripts/golden/nn.py [--out DIR]
"""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from common import Case, items, main, pad, unpad

ACTIVATIONS = {
    "none": lambda z: z,
    "relu": torch.relu,
    "gelu": lambda z: F.gelu(z, approximate="none"),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def linear(activation, with_bias, with_residual, rows, d_in, d_out, suffix=""):
    """y = act(x W^T + b) + residual, W [d_out, d_in]."""
    parts = [activation] + ["bias"] * with_bias + ["residual"] * with_residual
    case = Case(
        f"linear_{'_'.join(parts)}{suffix}", activation=activation, bias=with_bias, residual=with_residual
    )
    x = case.input("x", rows, d_in)
    w = case.input("w", d_out, d_in)
    b = case.input("b", d_out) if with_bias else None
    z = F.linear(x, w, b)
    if activation == "relu":
        case.away_from_kink(z)
    y = ACTIVATIONS[activation](z)
    if with_residual:
        y = y + case.input("residual", rows, d_out)
    return case.backward(y=y)


def linear_cases():
    for activation, bias, residual in itertools.product(ACTIVATIONS, (True, False), (True, False)):
        yield linear(activation, bias, residual, rows=3, d_in=5, d_out=2)
    # Wider than a vector register, with a remainder on every axis.
    yield linear("gelu", True, True, rows=5, d_in=11, d_out=19, suffix="_wide")


def layer_norm_cases():
    """y = (x − mean) / sqrt(var + eps) · gain + bias over the last axis, var divided by D."""
    eps = 1e-5
    for name, rows, width in (("", 5, 7), ("_wide", 3, 19), ("_one_feature", 3, 1)):
        case = Case(f"layer_norm{name}", eps=eps)
        values = case.draw(rows, width, scale=2.0) + 0.5
        if not name:
            values[2] = 0.5
            case.attrs["constant_row"] = 2
        x = case.given("x", values)
        gain = case.given("gain", 1.0 + case.draw(width, scale=0.5))
        bias = case.input("bias", width)
        yield case.backward(y=F.layer_norm(x, (width,), gain, bias, eps))


def embedding_cases():
    ids = [2, 5, 2, 0, 6]
    case = Case("embedding_repeated_id", ids=ids)
    table = case.input("table", 7, 3)
    yield case.backward(y=F.embedding(torch.tensor(ids), table))


def cross_entropy_cases():
    """Mean over the positions that count of −Σ_c t_c log softmax(logits)_c, t = (1 − s) onehot + s / C."""
    ignored = [3, -1, 0, 4, -1, 2, 3]
    complete = [3, 1, 0, 4, 1, 2, 3]
    for name, targets, smoothing, scale in (
        ("all", complete, 0.0, 1.0),
        ("all_smoothed", complete, 0.1, 1.0),
        ("ignored", ignored, 0.0, 1.0),
        ("ignored_smoothed", ignored, 0.1, 1.0),
        ("large_logits", ignored, 0.1, 400.0),
    ):
        case = Case(f"cross_entropy_{name}", targets=targets, ignore_index=-1, label_smoothing=smoothing)
        case.record("targets", torch.tensor(targets))
        logits = case.input("logits", 7, 5, scale=scale)
        loss = F.cross_entropy(
            logits, torch.tensor(targets), ignore_index=-1, label_smoothing=smoothing, reduction="mean"
        )
        yield case.backward(y=loss.reshape(1))


def run_direction(kind, x, lengths, parameters, reverse):
    """One direction of torch.nn.LSTM or torch.nn.GRU, item by item, from a zero state; returns [N, H]."""
    hidden = parameters["weight_hh_l0"].shape[1]
    module = kind(x.shape[1], hidden, batch_first=True)
    outputs = []
    for item in items(x, lengths):
        steps = item.flip(0) if reverse else item
        states, _ = functional_call(module, parameters, steps.unsqueeze(0))
        outputs.append(states[0].flip(0) if reverse else states[0])
    return torch.cat(outputs)


def run_both_directions(kind, x, lengths, forward, backward):
    """The same by torch's own bidirectional module on a padded batch; returns [N, 2H]."""
    hidden = forward["weight_hh_l0"].shape[1]
    module = kind(x.shape[1], hidden, batch_first=True, bidirectional=True)
    parameters = forward | {f"{name}_reverse": value for name, value in backward.items()}
    packed = pack_padded_sequence(pad(x, lengths), torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    states, _ = functional_call(module, parameters, (packed,))
    padded, _ = pad_packed_sequence(states, batch_first=True)
    return unpad(padded, lengths)


def recurrent_parameters(case, kind, d_in, hidden, suffix):
    """Draws the parameters of one direction; LSTM has one bias b = b_ih + b_hh, GRU has both."""
    gates = 4 if kind is nn.LSTM else 3
    parameters = {
        "weight_ih_l0": case.input(f"w_ih{suffix}", gates * hidden, d_in, scale=0.6),
        "weight_hh_l0": case.input(f"w_hh{suffix}", gates * hidden, hidden, scale=0.6),
    }
    if kind is nn.LSTM:
        parameters["bias_ih_l0"] = case.input(f"b{suffix}", gates * hidden, scale=0.6)
        parameters["bias_hh_l0"] = torch.zeros(gates * hidden)
    else:
        parameters["bias_ih_l0"] = case.input(f"b_ih{suffix}", gates * hidden, scale=0.6)
        parameters["bias_hh_l0"] = case.input(f"b_hh{suffix}", gates * hidden, scale=0.6)
    return parameters


def recurrent_cases(kind):
    """LSTM with gates (i, f, g, o) or GRU with gates (r, z, n), over items of length 5, 1 and 3."""
    lengths, d_in, hidden = [5, 1, 3], 5, 3
    for direction in ("forward", "reverse", "both"):
        case = Case(f"{kind.__name__.lower()}_{direction}", lengths=lengths, direction=direction)
        x = case.input("x", sum(lengths), d_in)
        first = recurrent_parameters(case, kind, d_in, hidden, "")
        if direction == "both":
            second = recurrent_parameters(case, kind, d_in, hidden, "_reverse")
            y = run_both_directions(kind, x, lengths, first, second)
            halves = [run_direction(kind, x, lengths, p, r) for p, r in ((first, False), (second, True))]
            torch.testing.assert_close(y, torch.cat(halves, dim=1), rtol=1e-12, atol=1e-12)
        else:
            y = run_direction(kind, x, lengths, first, direction == "reverse")
        yield case.backward(y=y)


def conv1d_cases():
    """w [F, width · D], column = tap · D + channel, tap 0 leftmost; zeros beyond an item's edges."""
    lengths, d_in = [6, 1, 4], 7
    for width, filters in ((2, 3), (3, 2), (5, 3)):
        left = (width - 1) // 2
        right = width - 1 - left
        case = Case(f"conv1d_width_{width}", lengths=lengths, width=width, left=left, right=right)
        x = case.input("x", sum(lengths), d_in)
        w = case.input("w", filters, width * d_in)
        b = case.input("b", filters)
        kernel = w.reshape(filters, width, d_in).permute(0, 2, 1)
        outputs = [F.conv1d(F.pad(item.T.unsqueeze(0), (left, right)), kernel, b)[0].T for item in items(x, lengths)]
        y = torch.cat(outputs)
        torch.testing.assert_close(y, unfold(x, lengths, left, right) @ w.T + b, rtol=1e-12, atol=1e-12)
        yield case.backward(y=y)


def unfold(x, lengths, left, right):
    """Row i holds x[i − left] … x[i + right] side by side, zeros beyond an item's edges."""
    rows = []
    for item in items(x, lengths):
        padded = F.pad(item, (0, 0, left, right))
        rows.append(torch.cat([padded[tap : tap + len(item)] for tap in range(left + right + 1)], dim=1))
    return torch.cat(rows)


def window_and_pool_cases():
    lengths = [6, 1, 4]
    case = Case("window_unfold", lengths=lengths, left=1, right=2)
    x = case.input("x", sum(lengths), 3)
    yield case.backward(y=unfold(x, lengths, 1, 2))

    for kind, pool in (("max", lambda item: item.max(dim=0).values), ("mean", lambda item: item.mean(dim=0))):
        case = Case(f"pool_{kind}", lengths=lengths, kind=kind)
        x = case.input("x", sum(lengths), 7)
        for item in items(x, lengths):
            # Two equal maxima would have no gradient that everybody agrees on.
            case.away_from_kink(item.sort(dim=0).values.diff(dim=0))
        yield case.backward(y=torch.stack([pool(item) for item in items(x, lengths)]))


def crf_cases():
    """Linear-chain CRF by listing every path.

    score = start[t_1] + Σ emission[i, t_i] + Σ transition[t_{i−1}, t_i] + end[t_n];
    y = mean over the items of log Σ_paths exp(score) − score(tags).
    """
    n_labels = 3
    for name, lengths, tags in (
        ("one_item", [4], [2, 0, 0, 1]),
        ("batch", [4, 1, 3], [0, 2, 1, 1, 2, 1, 0, 0]),
    ):
        case = Case(f"crf_{name}", lengths=lengths, tags=tags)
        emissions = case.input("emissions", sum(lengths), n_labels)
        transitions = case.input("transitions", n_labels, n_labels)
        start = case.input("start", n_labels)
        end = case.input("end", n_labels)

        def score(item, path):
            total = start[path[0]] + end[path[-1]]
            for position, label in enumerate(path):
                total = total + item[position, label]
            for before, after in itertools.pairwise(path):
                total = total + transitions[before, after]
            return total

        losses, log_partitions, best_path, best_scores = [], [], [], []
        for item, gold in zip(items(emissions, lengths), torch.split(torch.tensor(tags), lengths)):
            paths = list(itertools.product(range(n_labels), repeat=len(item)))
            scores = torch.stack([score(item, path) for path in paths])
            log_partitions.append(torch.logsumexp(scores, dim=0))
            losses.append(log_partitions[-1] - score(item, gold.tolist()))
            best = max(range(len(paths)), key=lambda index: scores[index].item())
            runner_up = scores.sort(descending=True).values[1]
            assert scores[best] - runner_up > 1e-3, f"{case.name}: the best path is not clear"
            best_path.extend(paths[best])
            best_scores.append(scores[best])
        case.attrs["viterbi"] = best_path
        case.record("viterbi_score", torch.stack(best_scores))
        case.record("log_partition", torch.stack(log_partitions))
        yield case.backward(y=torch.stack(losses).mean().reshape(1))


def optimiser_cases():
    """`gradients` [steps, n] are fed one by one; `parameters` [steps, n] is the state after each step."""
    adam = {"lr": 0.05, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9}
    for name, kind, attrs in (
        ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}),
        ("sgd_momentum", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
        ("adam", torch.optim.Adam, adam | {"weight_decay": 0.0}),
        ("adamw", torch.optim.AdamW, adam | {"weight_decay": 0.01}),
    ):
        case = Case(f"optimiser_{name}", **attrs)
        initial = case.draw(7)
        gradients = case.draw(5, 7)
        # A parameter that never takes part: Adam must not divide zero by zero.
        gradients[:, 3] = 0.0
        options = {key: value for key, value in attrs.items() if not key.startswith("beta")}
        if "beta1" in attrs:
            options["betas"] = (attrs["beta1"], attrs["beta2"])
        parameter = nn.Parameter(initial.clone())
        optimiser = kind([parameter], **options)
        trajectory = []
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimiser.step()
            trajectory.append(parameter.detach().clone())
        case.record("initial", initial)
        case.record("gradients", gradients)
        case.record("parameters", torch.stack(trajectory))
        yield case


def clip_cases():
    """All gradients together times min(1, max_norm / (norm + 1e-6))."""
    for name, max_norm in (("scales_down", 1.5), ("leaves_alone", 50.0)):
        case = Case(f"clip_grad_norm_{name}", max_norm=max_norm, eps=1e-6)
        parameters = []
        for index, shape in enumerate(((5,), (2, 3))):
            parameter = nn.Parameter(torch.zeros(shape))
            parameter.grad = case.draw(*shape)
            case.record(f"gradient_{index}", parameter.grad)
            parameters.append(parameter)
        norm = nn.utils.clip_grad_norm_(parameters, max_norm)
        assert (norm > max_norm) == (name == "scales_down")
        case.record("norm", norm.reshape(1))
        for index, parameter in enumerate(parameters):
            case.record(f"clipped_{index}", parameter.grad)
        yield case


def noam(step, d_model, warmup):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(step, peak, warmup):
    return peak * min(step / warmup, math.sqrt(warmup / step))


def cosine(step, peak, floor, warmup, total):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def schedule_cases():
    """Learning rate of each step in `steps`; the first step is 1."""
    published = [1.746928e-7, 6.987712e-5, 6.987712e-4, 1.397542e-4]
    for name, formula, attrs, steps in (
        ("noam", noam, {"d_model": 512, "warmup": 4000}, [1, 400, 4000, 100000]),
        ("inverse_sqrt", inverse_sqrt, {"peak": 0.003, "warmup": 50}, [1, 10, 49, 50, 51, 200, 5000]),
        (
            "cosine",
            cosine,
            {"peak": 0.002, "floor": 0.0001, "warmup": 10, "total": 100},
            [1, 5, 10, 11, 32, 55, 99, 100, 130],
        ),
    ):
        case = Case(f"schedule_{name}", steps=steps, **attrs)
        rates = [formula(step, **attrs) for step in steps]
        if name == "noam":
            assert all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(rates, published))
        case.record("lr", torch.tensor(rates))
        yield case


def transformer_cases():
    """torch.nn.TransformerEncoderLayer, two heads of three features, in evaluation mode, packed [N, D]."""
    d_model, n_heads, d_ff = 6, 2, 7
    for norm, activation, lengths in itertools.product(("pre", "post"), ("relu", "gelu"), ([5], [5, 3])):
        name = f"transformer_{norm}_norm_{activation}_{'one_item' if len(lengths) == 1 else 'batch'}"
        case = Case(name, lengths=lengths, n_heads=n_heads, norm=norm, activation=activation, eps=1e-5)
        layer = nn.TransformerEncoderLayer(
            d_model, n_heads, d_ff, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
        ).eval()
        x = case.input("x", sum(lengths), d_model)
        parameters = {}
        for key, old in layer.named_parameters():
            centre = 1.0 if key in ("norm1.weight", "norm2.weight") else 0.0
            parameters[key] = case.given(key, centre + case.draw(*old.shape, scale=0.5))

        if activation == "relu":
            layer.linear1.register_forward_hook(lambda _module, _inputs, hidden, case=case: case.away_from_kink(hidden))
        padding = torch.arange(max(lengths))[None, :] >= torch.tensor(lengths)[:, None]
        options = {"src_key_padding_mask": padding} if len(lengths) > 1 else {}
        y = unpad(functional_call(layer, parameters, pad(x, lengths), options), lengths)
        alone = [functional_call(layer, parameters, item.unsqueeze(0))[0] for item in items(x, lengths)]
        torch.testing.assert_close(y, torch.cat(alone), rtol=1e-12, atol=1e-12)
        yield case.backward(y=y)


if __name__ == "__main__":
    main(
        "nn",
        itertools.chain(
            linear_cases(),
            layer_norm_cases(),
            embedding_cases(),
            cross_entropy_cases(),
            recurrent_cases(nn.LSTM),
            recurrent_cases(nn.GRU),
            conv1d_cases(),
            window_and_pool_cases(),
            crf_cases(),
            optimiser_cases(),
            clip_cases(),
            schedule_cases(),
            transformer_cases(),
        ),
    )
