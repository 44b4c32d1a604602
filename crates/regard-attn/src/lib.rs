//! What attention means: scores, normalisers, scopes, positions, the catalogue and the plain reference.
