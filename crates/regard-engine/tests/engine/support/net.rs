//! The net: one problem through the engine in both precisions and through the reference, compared within the
//! bound; and what is said of many.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regard_attn::catalogue::{self, Kind};
use regard_attn::summary::Top;
use regard_tensor::Real;

use super::bound::{Bounds, Precision, bounds};
use super::draw::draw;
use super::{Outcome, Problem};

/// Quotients of error and bound, by powers of 2^{1/4} from 2^{-40} on.
#[derive(Debug, Clone)]
pub(crate) struct Ratios {
    counts: Vec<u64>,
    /// How many bounds say little: above a thousandth of the largest entry of their array, or of 1.
    loose: u64,
    /// Of the others; the height of a jump is reached wherever one happens.
    largest: f64,
    /// The seed of the largest.
    seed: Option<u64>,
}

impl Ratios {
    const STEPS: f64 = 4.0;
    const LOWEST: f64 = -40.0;

    fn new() -> Self {
        Self { counts: vec![0; 180], loose: 0, largest: 0.0, seed: None }
    }

    fn take(&mut self, ratio: f64, is_loose: bool, seed: Option<u64>) {
        let step = ((ratio.log2() - Self::LOWEST) * Self::STEPS).max(0.0) as usize;
        let last = self.counts.len() - 1;
        self.counts[step.min(last)] += 1;
        if is_loose {
            self.loose += 1;
        } else if ratio > self.largest {
            (self.largest, self.seed) = (ratio, seed);
        }
    }

    fn add(&mut self, other: &Self) {
        for (sum, n) in self.counts.iter_mut().zip(&other.counts) {
            *sum += n;
        }
        self.loose += other.loose;
        if other.largest > self.largest {
            (self.largest, self.seed) = (other.largest, other.seed);
        }
    }

    fn loose(&self) -> f64 {
        100.0 * self.loose as f64 / self.counts.iter().sum::<u64>().max(1) as f64
    }

    /// The middle one, to the next power of 2^{1/4}; 0 if most are exact.
    fn median(&self) -> f64 {
        let half = self.counts.iter().sum::<u64>() / 2;
        let mut seen = 0;
        for (step, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen > half {
                return if step == 0 {
                    0.0
                } else {
                    (step as f64 / Self::STEPS + Self::LOWEST).exp2()
                };
            }
        }
        0.0
    }
}

/// What is said of the problems so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    pub(crate) cases: usize,
    /// Over two borders of tiles.
    pub(crate) crossing: usize,
    pub(crate) rows: usize,
    pub(crate) ambiguous: usize,
    /// How many problems had a part of this name.
    pub(crate) members: BTreeMap<&'static str, usize>,
    /// By precision and output.
    pub(crate) ratios: BTreeMap<(&'static str, &'static str), Ratios>,
}

impl Findings {
    pub(crate) fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.crossing += other.crossing;
        self.rows += other.rows;
        self.ambiguous += other.ambiguous;
        for (name, n) in &other.members {
            *self.members.entry(name).or_default() += n;
        }
        for (place, ratios) in &other.ratios {
            self.ratios.entry(*place).or_insert_with(Ratios::new).add(ratios);
        }
    }

    /// Takes in which parts and sizes a problem has.
    pub(crate) fn draw(&mut self, problem: &Problem) {
        self.cases += 1;
        self.crossing += usize::from(problem.crosses_two_edges());
        let mut names = problem.names();
        names.sort_unstable();
        names.dedup();
        for name in names {
            *self.members.entry(name).or_default() += 1;
        }
    }

    /// The parts of the catalogue and how often each was drawn.
    pub(crate) fn parts(&self) -> Vec<(Kind, &'static str, usize)> {
        let parts = catalogue::all().iter().filter(|entry| entry.kind != Kind::Mechanism);
        let drawn = |name| self.members.get(name).copied().unwrap_or(0);
        parts.map(|entry| (entry.kind, entry.name, drawn(entry.name))).collect()
    }

    /// What every run must show: each part drawn `least` times, half of the sizes over two borders, few
    /// ambiguous rows.
    pub(crate) fn complaints(&self, least: usize) -> Vec<String> {
        let mut complaints = Vec::new();
        for (_, name, n) in self.parts() {
            if n < least {
                complaints.push(format!("`{name}` was drawn {n} times, less than {least}"));
            }
        }
        if 2 * self.crossing < self.cases {
            let (n, all) = (self.crossing, self.cases);
            complaints.push(format!("{n} of {all} problems cross two borders of tiles"));
        }
        if 100 * self.ambiguous > self.rows {
            let (n, all) = (self.ambiguous, self.rows);
            complaints.push(format!("{n} of {all} rows are too near to a jump"));
        }
        complaints
    }

    /// A table of everything.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let share = |n: usize, all: usize| 100.0 * n as f64 / all.max(1) as f64;
        let _ = writeln!(out, "problems           {:>9}", self.cases);
        let _ = writeln!(
            out,
            "over two borders   {:>9}  {:.1} %",
            self.crossing,
            share(self.crossing, self.cases)
        );
        let _ = writeln!(out, "rows with a key    {:>9}", self.rows);
        let _ = writeln!(
            out,
            "near a jump        {:>9}  {:.3} %",
            self.ambiguous,
            share(self.ambiguous, self.rows)
        );
        for kind in [Kind::Score, Kind::Normaliser, Kind::Scope, Kind::Position] {
            let _ = writeln!(out, "\n{kind:?}");
            for (_, name, n) in self.parts().into_iter().filter(|part| part.0 == kind) {
                let _ = writeln!(out, "  {name:<17}{n:>9}");
            }
        }
        let _ = write!(out, "\nerror / bound      ");
        for dtype in ["f32", "f64"] {
            let _ = write!(out, "  median {dtype}  loose      largest (seed)");
        }
        out.push('\n');
        let outputs: Vec<&str> = self
            .ratios
            .keys()
            .filter(|(dtype, _)| *dtype == "F32")
            .map(|(_, name)| *name)
            .collect();
        for name in outputs {
            let _ = write!(out, "  {name:<17}");
            for dtype in ["F32", "F64"] {
                if let Some(ratios) = self.ratios.get(&(dtype, name)) {
                    let seed = ratios.seed.map_or(String::new(), |seed| format!("({seed})"));
                    let _ = write!(
                        out,
                        "  {:>10.1e} {:>4.1} %  {:>8.4} {seed:<7}",
                        ratios.median(),
                        ratios.loose(),
                        ratios.largest
                    );
                }
            }
            out.push('\n');
        }
        out
    }
}

/// The engine against the reference in both precisions; what there is to say of it, or what is wrong.
pub(crate) fn check(problem: &Problem) -> Result<Findings, String> {
    let mut findings = Findings::default();
    findings.draw(problem);
    let (want, _) = problem.reference();
    compare::<f64>(problem, &want, &mut findings)?;
    compare::<f32>(problem, &want, &mut findings)?;
    Ok(findings)
}

/// [`check`] of the problem of a seed; says which one it is, where something is wrong.
pub(crate) fn check_seed(seed: u64) -> Result<Findings, String> {
    let problem = draw(seed);
    let checked = std::panic::catch_unwind(|| check(&problem));
    checked.unwrap_or_else(|_| Err("panics, see above".into())).map_err(|message| {
        format!("{problem}\n{message}\nagain alone: REGARD_EXACT_SEED={seed}, or `cargo xtask exact --seed {seed}`")
    })
}

fn compare<T: Real>(
    problem: &Problem,
    want: &Outcome,
    findings: &mut Findings,
) -> Result<(), String> {
    let dtype = T::DTYPE;
    let got = problem.engine::<T>();
    let bounds = bounds(problem, Precision::of::<T>());
    compare_arrays(problem, &got, want, &bounds, dtype, findings)
        .and_then(|()| compare_top(problem, &got, want, &bounds))
        .and_then(|()| compare_chosen(&got, want, &bounds))
        .map_err(|message| format!("{dtype}: {message}"))?;
    findings.rows += bounds.rows;
    findings.ambiguous += bounds.ambiguous;
    Ok(())
}

fn compare_arrays(
    problem: &Problem,
    got: &Outcome,
    want: &Outcome,
    bounds: &Bounds,
    dtype: &'static str,
    findings: &mut Findings,
) -> Result<(), String> {
    for (((name, got), (_, want)), bounds) in
        got.arrays().into_iter().zip(want.arrays()).zip(bounds.arrays())
    {
        if [got.len(), bounds.len()] != [want.len(); 2] {
            return Err(format!(
                "{name}: {} entries, {} wanted, {} bounds",
                got.len(),
                want.len(),
                bounds.len()
            ));
        }
        let ratios = findings.ratios.entry((dtype, name)).or_insert_with(Ratios::new);
        let mut worst: Option<(usize, f64)> = None;
        let finite = want.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        let size = finite.fold(1.0, f64::max);
        if let Some(n) = bounds.iter().position(|bound| !bound.is_finite()) {
            return Err(format!("{name}: entry {n} has no bound"));
        }
        for n in 0..got.len() {
            // Also equal infinities.
            let same = got[n] == want[n];
            let ratio = if same { 0.0 } else { (got[n] - want[n]).abs() / bounds[n] };
            if ratio <= 1.0 {
                if bounds[n] > 0.0 {
                    ratios.take(ratio, bounds[n] > 1e-3 * size, problem.seed);
                }
            } else if worst.is_none_or(|(_, most)| ratio > most || ratio.is_nan()) {
                worst = Some((n, ratio));
            }
        }
        if let Some((n, ratio)) = worst {
            return Err(format!(
                "{name}: entry {n} of {} is {:e} and not {:e}: off by {:e}, allowed {:e} ({ratio:.3} times)",
                got.len(),
                got[n],
                want[n],
                (got[n] - want[n]).abs(),
                bounds[n],
            ));
        }
    }
    Ok(())
}

/// The engine's list of largest weights: each weight is that of its key, and no larger one is missing, within
/// the bounds of the weights.
///
/// With r + 1 keys of the reference's weights a_0 ≥ … ≥ a_r, the engine's weight of rank r is at least
/// the smallest of a_l − e_l.
fn compare_top(
    problem: &Problem,
    got: &Outcome,
    want: &Outcome,
    bounds: &Bounds,
) -> Result<(), String> {
    let most = problem.wanted.top;
    if most == 0 {
        return Ok(());
    }
    let heads = problem.dims.n_heads;
    let (mut weight, mut query) = (0, 0);
    for item in &problem.items {
        for head in 0..heads {
            for i in 0..item.q_len {
                let weights = &want.weights[weight..weight + item.kv_len];
                let errors = &bounds.weights_again[weight..weight + item.kv_len];
                weight += item.kv_len;
                let place = (head * problem.n_queries() + query + i) * most;
                let (got, want) =
                    (&got.summary.top[place..][..most], &want.summary.top[place..][..most]);
                top_of_row(got, want, weights, errors)
                    .map_err(|what| format!("top of head {head}, query {}: {what}", query + i))?;
            }
        }
        query += item.q_len;
    }
    Ok(())
}

fn top_of_row(
    got: &[Top<f64>],
    want: &[Top<f64>],
    weights: &[f64],
    errors: &[f64],
) -> Result<(), String> {
    let mut least = f64::INFINITY;
    for rank in 0..got.len() {
        let (got_one, want_one) = (got[rank], want[rank]);
        // 0 where the reference has fewer keys of weight above 0.
        least = match want_one.key {
            Top::<f64>::NO_KEY => 0.0,
            key => least.min(weights[key] - errors[key]),
        };
        if got_one.key == Top::<f64>::NO_KEY {
            if least > 0.0 || got_one.weight != 0.0 {
                return Err(format!("nothing at rank {rank}, {want_one:?} is wanted"));
            }
            continue;
        }
        let Some(weight) = weights.get(got_one.key) else {
            return Err(format!("{got_one:?} is no key"));
        };
        let off = (got_one.weight - weight).abs();
        if off > errors[got_one.key] || got_one.weight < least || got_one.weight <= 0.0 {
            return Err(format!(
                "{got_one:?} at rank {rank}, weight {weight:e}, wanted {want_one:?}"
            ));
        }
        if got[..rank].iter().any(|other| other.key == got_one.key) {
            return Err(format!("{got_one:?} twice"));
        }
        if rank > 0 {
            let before = got[rank - 1];
            let in_order = before.weight > got_one.weight
                || (before.weight == got_one.weight && before.key < got_one.key);
            if !in_order {
                return Err(format!("{before:?} before {got_one:?}"));
            }
        }
    }
    Ok(())
}

fn compare_chosen(got: &Outcome, want: &Outcome, bounds: &Bounds) -> Result<(), String> {
    for (n, (got, want)) in got.summary.chosen.iter().zip(&want.summary.chosen).enumerate() {
        if got != want && !bounds.candidates[n].contains(got) {
            return Err(format!("chosen: row {n} has key {got} and not {want}"));
        }
    }
    Ok(())
}
