//! Serialisable results and their writers: JSON, HTML, SVG, CSV, NPZ.
