//! Attention, all of it: the front door of the toolkit.
