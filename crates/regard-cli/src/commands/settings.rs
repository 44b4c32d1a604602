//! What each setting means, in a line.

/// Keys with their section, and their meanings.
pub(super) const MEANINGS: [(&str, &str); 47] = [
    ("data.train", "File to train on (--train)."),
    ("data.dev", "File to choose the best weights by; empty: the last epoch's are kept (--dev)."),
    ("data.format", "auto (by the file name's ending), conllu or columns (--format)."),
    ("data.column", "Label column; empty for the format's default (--column)."),
    ("data.min_count", "Words seen less often in training share the unknown word's vector."),
    ("data.lowercase", "Whether word vectors ignore case; characters never do."),
    ("model.kind", "fc, window, cnn, lstm, bilstm, self-attention or transformer (--model)."),
    ("model.word_dim", "Width of word vectors."),
    ("model.chars", "How the characters of a word are read: none, cnn or lstm."),
    ("model.char_dim", "Width of character vectors."),
    ("model.char_hidden", "Filters of each width (cnn), or hidden size of each direction (lstm)."),
    ("model.char_widths", "Widths of the character convolutions, in characters."),
    ("model.input_dropout", "Dropout on the vectors of the words."),
    ("model.hidden", "Width of hidden layers; of each direction in an lstm or bilstm."),
    ("model.layers", "Number of layers."),
    ("model.context", "Neighbours seen on each side."),
    ("model.kernel", "Words that a filter sees."),
    ("model.d_model", "Width of queries, keys and values of all heads together."),
    ("model.heads", "Number of heads; d_model is a multiple of it."),
    ("model.ff", "Width of the feed-forward layers."),
    ("model.norm", "Layer norm before or after each sub-layer."),
    ("model.score", "dot, scaled-dot or additive."),
    ("model.position", "none, sinusoidal, learned or rotary."),
    ("model.window_left", "Truncated attention: words before a word that it sees; -1 for all."),
    ("model.window_right", "Truncated attention: words after a word that it sees; -1 for all."),
    ("model.dropout", "Dropout after each layer."),
    ("model.attention_dropout", "Dropout on the attention weights of a transformer."),
    ("model.output", "softmax, or crf for the best chain of labels (--crf)."),
    ("train.epochs", "Passes over the training file, at most (--epochs)."),
    ("train.batch_tokens", "Words in a batch, at most; a longer sentence is a batch of its own."),
    ("train.optimiser", "sgd, adam or adamw."),
    ("train.lr", "Peak learning rate."),
    ("train.schedule", "constant, inverse-sqrt or cosine."),
    ("train.warmup", "Steps over which the learning rate rises to its peak."),
    ("train.floor", "Part of the peak learning rate that a cosine ends with."),
    ("train.momentum", "Momentum of sgd."),
    ("train.beta1", "Decay of the mean of the gradients (adam, adamw)."),
    ("train.beta2", "Decay of the mean of their squares (adam, adamw)."),
    ("train.eps", "Added to the root of that mean (adam, adamw)."),
    ("train.weight_decay", "Weight decay."),
    ("train.clip", "Largest norm of all gradients together; 0 for no clipping."),
    ("train.smoothing", "Label smoothing; 0 with a crf."),
    ("train.word_dropout", "a: a word seen n times is read as unknown with probability a/(a + n)."),
    ("train.average", "Decay of the running average of the weights that is kept; 0 for none."),
    ("train.patience", "Epochs without a better development score before stopping; 0 for never."),
    ("train.checkpoint_every", "Steps between checkpoints; 0 for one after each epoch."),
    ("train.seed", "Decides first weights, order of the data and dropout (--seed)."),
];

/// What `section.key` means.
pub(super) fn meaning(section: &str, key: &str) -> Option<&'static str> {
    let wanted = format!("{section}.{key}");
    MEANINGS.iter().find(|(key, _)| *key == wanted).map(|(_, meaning)| *meaning)
}
