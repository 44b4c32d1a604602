//! Keys to which the query has an edge.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "graph",
    kind: Kind::Scope,
    title: "graph (edges in compressed rows)",
    formula: "scope(i) = N(i), or N(i) ∪ {i} with self-loops added",
    parts: None,
    paper: Some(Paper {
        author: "Veličković",
        year: 2018,
        title: "Graph Attention Networks",
        link: "https://arxiv.org/abs/1710.10903",
    }),
    taxonomy: None,
    shapes: "offsets [q_len + 1], columns [edges], ascending in each row; one graph for all items or \
             one for each",
    cost: "one pair an edge; hints cost O(log degree) a query",
    mistakes: &[
        "a missing edge as a score of 0: it is −∞",
        "edges turned round: row i lists what i looks at, the sources of its messages",
        "self-loops missing (citation networks) or added (look-up tasks)",
    ],
    example: example!(Graph {
        graphs: &[Csr { offsets: &[0, 2, 3], columns: &[0, 1, 0] }],
        self_loops: SelfLoops::AsGiven,
    }),
};

/// The edges of one graph in compressed rows: query i sees the keys
/// `columns[offsets[i]..offsets[i + 1]]`, ascending and each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Csr<'a> {
    /// Where each query's edges begin, and their total, `[q_len + 1]`.
    pub offsets: &'a [usize],
    /// The key of each edge.
    pub columns: &'a [usize],
}

impl<'a> Csr<'a> {
    /// The keys of a query, without added self-loops.
    pub fn row(&self, query: usize) -> &'a [usize] {
        &self.columns[self.offsets[query]..self.offsets[query + 1]]
    }
}

/// Edges in compressed rows, made of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeRows {
    offsets: Vec<usize>,
    columns: Vec<usize>,
    /// For each edge of the list, its index among the columns.
    place: Vec<usize>,
}

impl EdgeRows {
    /// Sorts `edges` (query, key), in any order, into rows for `q_len` queries. O(E log E).
    ///
    /// ```
    /// use regard_attn::scope::EdgeRows;
    ///
    /// let rows = EdgeRows::new(2, &[(1, 0), (0, 1), (0, 0)])?;
    /// assert_eq!(rows.csr().offsets, [0, 2, 3]);
    /// assert_eq!(rows.csr().columns, [0, 1, 0]);
    /// assert_eq!(rows.place(), [2, 1, 0]);
    /// # Ok::<(), regard_attn::AttnError>(())
    /// ```
    ///
    /// # Errors
    /// An edge of a query beyond the last, or an edge given twice.
    pub fn new(q_len: usize, edges: &[(usize, usize)]) -> Result<Self, AttnError> {
        let mut order: Vec<usize> = (0..edges.len()).collect();
        order.sort_by_key(|n| edges[*n]);
        let mut rows =
            Self { offsets: vec![0; q_len + 1], columns: vec![], place: vec![0; edges.len()] };
        for (n, edge) in order.iter().enumerate() {
            let (query, key) = edges[*edge];
            let expected = format_args!("edges of queries below {q_len}");
            AttnError::size(query < q_len, "edges", expected, format_args!("({query}, {key})"))?;
            let twice = n > 0 && edges[order[n - 1]] == edges[*edge];
            let actual = format_args!("({query}, {key}) twice");
            AttnError::size(!twice, "edges", "given once each", actual)?;
            rows.offsets[query + 1] += 1;
            rows.columns.push(key);
            rows.place[*edge] = n;
        }
        for i in 0..q_len {
            rows.offsets[i + 1] += rows.offsets[i];
        }
        Ok(rows)
    }

    /// The rows.
    pub fn csr(&self) -> Csr<'_> {
        Csr { offsets: &self.offsets, columns: &self.columns }
    }

    /// For each edge of the list, its index among the columns: an array with one entry a column
    /// is brought into the order of the list by it.
    pub fn place(&self) -> &[usize] {
        &self.place
    }
}

/// What [`Graph`] does about queries looking at themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// A query sees itself only where the graph has that edge.
    AsGiven,
    /// Every query i sees key i besides; needs q_len = kv_len.
    Added,
}

/// scope(i) = N(i), the keys to which query i has an edge; with self-loops added N(i) ∪ {i}.
///
/// Whether a node sees itself changes results and is a choice without a default. Veličković et al.
/// 2018, §2.1 (<https://arxiv.org/abs/1710.10903>), with self-loops. One graph serves all
/// items, if they have its size; else there is one for each.
///
/// ```
/// use regard_attn::scope::{Csr, Graph, Scope, SelfLoops};
/// use regard_attn::At;
///
/// let graphs = [Csr { offsets: &[0, 1, 3, 3], columns: &[2, 0, 2] }];
/// let at = At { item: 0, head: 0, q_len: 3, kv_len: 3, q_offset: 0 };
/// let given = Graph { graphs: &graphs, self_loops: SelfLoops::AsGiven };
/// let added = Graph { graphs: &graphs, self_loops: SelfLoops::Added };
/// let sees = |scope: Graph<'_>, i| (0..3).filter(|j| scope.allows(at, i, *j)).collect::<Vec<_>>();
/// assert_eq!((sees(given, 1), sees(added, 1)), (vec![0, 2], vec![0, 1, 2]));
/// assert_eq!((sees(given, 2), sees(added, 2)), (vec![], vec![2]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graph<'a> {
    /// One graph, or one for each item.
    pub graphs: &'a [Csr<'a>],
    /// Whether every query sees itself.
    pub self_loops: SelfLoops,
}

impl<'a> Graph<'a> {
    /// The keys of a query, without added self-loops.
    fn row(&self, at: At, query: usize) -> &'a [usize] {
        let graph = if self.graphs.len() == 1 { 0 } else { at.item };
        self.graphs[graph].row(query)
    }

    /// Whether an edge to itself is added to a query.
    fn adds(&self, at: At, query: usize) -> bool {
        self.self_loops == SelfLoops::Added && self.row(at, query).binary_search(&query).is_err()
    }

    /// Number of `keys` that a query sees.
    fn seen(&self, at: At, query: usize, keys: &Span) -> usize {
        let row = self.row(at, query);
        let below = |end| row.partition_point(|key| *key < end);
        let added = keys.contains(&query) && self.adds(at, query);
        below(keys.end).saturating_sub(below(keys.start)) + usize::from(added)
    }

    fn check_rows(item: usize, of: Item, graph: &Csr<'_>) -> Result<(), AttnError> {
        let Csr { offsets, columns } = graph;
        let Item { q_len, kv_len, .. } = of;
        let expected = format_args!("q_len + 1 = {} entries for item {item}", q_len + 1);
        AttnError::size(offsets.len() == q_len + 1, "offsets", expected, offsets.len())?;
        let expected = format_args!("ascending from 0 to the {} columns", columns.len());
        let ends = (offsets[0], offsets[q_len]);
        let ascending = offsets.is_sorted() && ends == (0, columns.len());
        let actual = format_args!("others, from {} to {}", ends.0, ends.1);
        AttnError::size(ascending, "offsets", expected, actual)?;
        for query in 0..q_len {
            let row = graph.row(query);
            if let Some(key) = row.iter().find(|key| **key >= kv_len) {
                let expected = format_args!("below the {kv_len} keys of item {item}");
                let actual = format_args!("{key} for query {query}");
                return AttnError::size(false, "columns", expected, actual);
            }
            if let Some([before, key]) = row.windows(2).find(|pair| pair[0] >= pair[1]) {
                let actual = format_args!("{before} and then {key} for query {query}");
                return AttnError::size(false, "columns", "ascending in each row", actual);
            }
        }
        Ok(())
    }
}

impl Scope for Graph<'_> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        match self.self_loops {
            SelfLoops::AsGiven => "edges of the graph".into(),
            SelfLoops::Added => "edges of the graph and self-loops".into(),
        }
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let (n, given) = (items.len(), self.graphs.len());
        let expected = format_args!("one graph, or one for each of the {n} items");
        AttnError::size(given == 1 || given == n, "graphs", expected, given)?;
        for (i, item) in items.iter().enumerate() {
            if self.self_loops == SelfLoops::Added {
                let expected =
                    format_args!("the kv_len {} of item {i}, for self-loops", item.kv_len);
                AttnError::size(item.q_len == item.kv_len, "q_len", expected, item.q_len)?;
            }
            Self::check_rows(i, *item, &self.graphs[if given == 1 { 0 } else { i }])?;
        }
        Ok(())
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        (self.self_loops == SelfLoops::Added && query == key)
            || self.row(at, query).binary_search(&key).is_ok()
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let (mut any, mut all) = (false, true);
        for i in queries {
            let seen = self.seen(at, i, &keys);
            any |= seen > 0;
            all &= seen == keys.len();
            if any && !all {
                return Coverage::Partial;
            }
        }
        if any { Coverage::Whole } else { Coverage::Skip }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        let (mut start, mut end) = (at.kv_len, 0);
        for i in queries {
            let own = (self.self_loops == SelfLoops::Added).then_some(i);
            let row = self.row(at, i);
            for key in own.iter().chain(row.first()).chain(row.last()) {
                start = start.min(*key);
                end = end.max(*key + 1);
            }
        }
        start.min(end)..end
    }

    /// One pair in sixteen or fewer: a tile would be mostly empty.
    fn lists(&self, at: At) -> bool {
        let graph = self.graphs[if self.graphs.len() == 1 { 0 } else { at.item }];
        // Of the part that has edges: padding behind it must not change the way an item is computed.
        let edges = graph.columns.len();
        let rows = graph.offsets.partition_point(|offset| *offset < edges);
        let last = (0..rows).filter_map(|query| graph.row(query).last()).max();
        edges <= rows * last.map_or(0, |key| key + 1) / 16
    }

    fn list(&self, at: At, query: usize, keys: &mut Vec<usize>) {
        let row = self.row(at, query);
        if self.adds(at, query) {
            let before = row.partition_point(|key| *key < query);
            keys.extend_from_slice(&row[..before]);
            keys.push(query);
            keys.extend_from_slice(&row[before..]);
        } else {
            keys.extend_from_slice(row);
        }
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        let sees = |i: &usize| self.seen(at, *i, &keys) > 0;
        let Some(first) = (0..at.q_len).find(sees) else { return 0..0 };
        first..(first..at.q_len).rfind(sees).map_or(first, |last| last + 1)
    }
}
