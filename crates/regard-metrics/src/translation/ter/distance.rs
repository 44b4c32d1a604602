//! Edit distance near the diagonal.

/// How far from the diagonal, in words.
const BEAM: usize = 25;
/// What a cell outside the beam costs.
const FAR: u32 = u32::MAX / 2;

/// How a cell is reached, in the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// The words are the same.
    Keep,
    /// One word for another.
    Substitute,
    /// A word of the hypothesis that the reference has not.
    Delete,
    /// A word of the reference that the hypothesis has not.
    Insert,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    cost: u32,
    edit: Edit,
}

/// Row i of the matrix: prefixes of the reference, against the first i words of the hypothesis. Cells outside the beam are not stored.
#[derive(Debug, Clone, Default)]
struct Row {
    first: usize,
    cells: Vec<Cell>,
}

impl Row {
    fn cost(&self, j: usize) -> u32 {
        let cell = j.checked_sub(self.first).and_then(|at| self.cells.get(at));
        cell.map_or(FAR, |cell| cell.cost)
    }
}

/// Edit distances of one reference from hypotheses of one length, with the matrix of the last one that was aligned.
///
/// Cell (i, j) lies in the beam if |j − ⌊i · r/h⌋| ≤ b (< b above it), for r words of the reference and h of the hypothesis; b is 25, or enough for neighbouring
/// rows to overlap where r/h is above 50. So every cell in the beam has a neighbour in the row before, and the last row reaches the end of the
/// reference: a path exists.
pub(super) struct Distance<'a> {
    reference: &'a [u32],
    hypothesis: Vec<u32>,
    rows: Vec<Row>,
    scratch: [Row; 2],
}

impl<'a> Distance<'a> {
    pub(super) fn new(reference: &'a [u32], hypothesis: &[u32]) -> Self {
        let cells = (0..=reference.len() as u32).map(|cost| Cell { cost, edit: Edit::Insert });
        let first = Row { first: 0, cells: cells.collect() };
        let mut distance = Distance {
            reference,
            hypothesis: Vec::new(),
            rows: vec![first],
            scratch: Default::default(),
        };
        distance.rows.resize(hypothesis.len() + 1, Row::default());
        distance.hypothesis = hypothesis.to_vec();
        distance.fill(0);
        distance
    }

    pub(super) fn hypothesis(&self) -> &[u32] {
        &self.hypothesis
    }

    /// The distance of the hypothesis.
    pub(super) fn cost(&self) -> u32 {
        self.rows[self.hypothesis.len()].cost(self.reference.len())
    }

    /// The distance of another hypothesis of the same length. Rows for what it begins with in common are not computed again.
    pub(super) fn cost_of(&mut self, other: &[u32]) -> u32 {
        let common = common_prefix(&self.hypothesis, other);
        if common == other.len() {
            return self.cost();
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        for i in common + 1..=other.len() {
            let [before, row] = &mut scratch;
            let before = if i == common + 1 { &self.rows[common] } else { &*before };
            self.fill_row(before, row, i, other[i - 1]);
            scratch.swap(0, 1);
        }
        let cost = scratch[0].cost(self.reference.len());
        self.scratch = scratch;
        cost
    }

    /// Goes on with another hypothesis of the same length.
    pub(super) fn replace(&mut self, other: &[u32]) {
        let common = common_prefix(&self.hypothesis, other);
        self.hypothesis.copy_from_slice(other);
        self.fill(common);
    }

    /// The edits from the beginning to the end.
    pub(super) fn edits(&self) -> Vec<Edit> {
        let (mut i, mut j) = (self.hypothesis.len(), self.reference.len());
        let mut edits = Vec::with_capacity(i.max(j));
        while i > 0 || j > 0 {
            let row = &self.rows[i];
            let edit = row.cells[j - row.first].edit;
            edits.push(edit);
            match edit {
                Edit::Keep | Edit::Substitute => (i, j) = (i - 1, j - 1),
                Edit::Delete => i -= 1,
                Edit::Insert => j -= 1,
            }
        }
        edits.reverse();
        edits
    }

    /// Computes the rows after `known`.
    fn fill(&mut self, known: usize) {
        for i in known + 1..=self.hypothesis.len() {
            let mut row = std::mem::take(&mut self.rows[i]);
            self.fill_row(&self.rows[i - 1], &mut row, i, self.hypothesis[i - 1]);
            self.rows[i] = row;
        }
    }

    fn fill_row(&self, before: &Row, row: &mut Row, i: usize, word: u32) {
        let (h, r) = (self.hypothesis.len(), self.reference.len());
        // In f64 and in this order, since the program followed rounds here.
        let ratio = r as f64 / h as f64;
        let half = ratio / 2.0;
        let beam = if half > BEAM as f64 { (half + BEAM as f64).ceil() as usize } else { BEAM };
        let diagonal = (i as f64 * ratio).floor() as usize;
        let end = if i == h { r + 1 } else { (r + 1).min(diagonal + beam) };

        row.first = diagonal.saturating_sub(beam);
        row.cells.clear();
        let mut left = FAR;
        for j in row.first..end {
            let mut cell = if j == 0 {
                Cell { cost: before.cost(0) + 1, edit: Edit::Delete }
            } else {
                let keeps = word == self.reference[j - 1];
                let mut cell = Cell {
                    cost: before.cost(j - 1) + u32::from(!keeps),
                    edit: if keeps { Edit::Keep } else { Edit::Substitute },
                };
                let delete = before.cost(j) + 1;
                if delete < cell.cost {
                    cell = Cell { cost: delete, edit: Edit::Delete };
                }
                if left + 1 < cell.cost {
                    cell = Cell { cost: left + 1, edit: Edit::Insert };
                }
                cell
            };
            cell.cost = cell.cost.min(FAR);
            left = cell.cost;
            row.cells.push(cell);
        }
    }
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
