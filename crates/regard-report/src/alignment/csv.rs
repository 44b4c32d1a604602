//! The weights as a table with one line for each (kind, layer, head, query, key).

use std::fmt::Write;

use super::AlignmentReport;
use crate::ReportError;
use crate::attention::csv::quoted;

/// The weights of every head in long form, under the header
/// `kind,layer,head,query_index,query,key_index,key,weight,centre`.
///
/// Counts start at 0. The centre of a query's window is empty but under a local scope. Numbers are
/// the shortest decimals that read back as the same f32.
///
/// # Errors
/// Those of [`AlignmentReport::validate`].
pub fn alignment_csv(report: &AlignmentReport) -> Result<String, ReportError> {
    report.validate()?;
    let mut csv = String::from("kind,layer,head,query_index,query,key_index,key,weight,centre\n");
    for head in &report.heads {
        let (kind, l, h) = (head.kind.name(), head.layer, head.head);
        for (i, query) in report.queries(head.kind).iter().enumerate() {
            let centre = head.centres.as_ref().map_or_else(String::new, |c| format!("{:?}", c[i]));
            for (j, key) in report.keys(head.kind).iter().enumerate() {
                let (query, key, weight) = (quoted(query), quoted(key), head.weights.at(i, j));
                writeln!(csv, "{kind},{l},{h},{i},{query},{j},{key},{weight:?},{centre}")
                    .expect("writing to a string cannot fail");
            }
        }
    }
    Ok(csv)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alignment::tests::report;

    #[test]
    fn a_line_for_each_pair() {
        let csv = alignment_csv(&report()).unwrap();
        assert_eq!(csv.lines().count(), 1 + 4 + 9 + 6);
        let line = "cross,0,0,1,\"▁dog, \"\"big\"\"\",0,▁ein,0.25,0.75";
        assert!(csv.lines().any(|l| l == line), "{csv}");
        assert!(csv.contains("\ndecoder-self,0,0,2,</s>,0,<s>,0.25,\n"), "{csv}");
    }
}
