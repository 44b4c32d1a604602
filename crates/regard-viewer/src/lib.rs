//! A self-contained page to look into attention, made from a report.
