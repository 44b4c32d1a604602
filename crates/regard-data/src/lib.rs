//! Readers of the files people already have, vocabularies and batches.
