//! The scores that a report can be checked against.

/// A score whose formula is known here, so that s_ij can be computed again from q_i and k_j.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreKind {
    /// s = q·k
    Dot,
    /// s = q·k / √d_k
    ScaledDot,
    /// s = v_a·tanh(q + k), with q and k the projected query and key
    Additive,
}

impl ScoreKind {
    /// The kind that a [`ModelDescription`](crate::ModelDescription) names, `-` and `_` being one;
    /// `None` for any other name, which a report may carry but not have recomputed.
    ///
    /// ```
    /// use regard_report::ScoreKind;
    ///
    /// assert_eq!(ScoreKind::from_name("scaled_dot"), Some(ScoreKind::ScaledDot));
    /// assert_eq!(ScoreKind::from_name("cosine"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Dot, Self::ScaledDot, Self::Additive]
            .into_iter()
            .find(|kind| kind.name() == name.replace('_', "-"))
    }

    /// `dot`, `scaled-dot` or `additive`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::ScaledDot => "scaled-dot",
            Self::Additive => "additive",
        }
    }

    /// The formula as shown to a reader.
    pub fn formula(self) -> &'static str {
        match self {
            Self::Dot => "s = q·k",
            Self::ScaledDot => "s = q·k / √d_k",
            Self::Additive => "s = v_a·tanh(q + k)",
        }
    }

    /// score(q, k) in f64. `q` and `k` have d_k numbers; `v_a` too for [`ScoreKind::Additive`],
    /// and is not read by the others.
    pub fn score(self, q: &[f32], k: &[f32], v_a: &[f32]) -> f64 {
        let pairs = || q.iter().zip(k).map(|(q, k)| (f64::from(*q), f64::from(*k)));
        match self {
            Self::Dot => pairs().map(|(q, k)| q * k).sum(),
            Self::ScaledDot => pairs().map(|(q, k)| q * k).sum::<f64>() / (q.len() as f64).sqrt(),
            Self::Additive => {
                pairs().zip(v_a).map(|((q, k), v)| f64::from(*v) * (q + k).tanh()).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        let (q, k, v_a) = ([1.0, -2.0, 0.5, 0.0], [3.0, 1.0, 2.0, 7.0], [0.5, 2.0, 0.0, 1.0]);
        assert_eq!(ScoreKind::Dot.score(&q, &k, &[]), 2.0);
        assert_eq!(ScoreKind::ScaledDot.score(&q, &k, &[]), 1.0);
        // 0.5 tanh 4 + 2 tanh(−1) + tanh 7
        let expected = 0.499_664_649_8 - 1.523_188_311_9 + 0.999_998_336_9;
        let additive = ScoreKind::Additive.score(&q, &k, &v_a);
        assert!((additive - expected).abs() < 1e-9, "{additive}");
    }

    #[test]
    fn names_read_back() {
        for kind in [ScoreKind::Dot, ScoreKind::ScaledDot, ScoreKind::Additive] {
            assert_eq!(ScoreKind::from_name(kind.name()), Some(kind));
        }
    }
}
