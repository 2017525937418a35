//! Evidence and expected loss: numbers that explain a decision (document 004, section 5).
//!
//! They never grant more than the policy allows. With the matrix of document 004 the rule is
//! *grant when `100 p < 2 (1 - p) + p`*, that is `p < 2/101`, about 1.98 %.

use serde::{Deserialize, Serialize};

/// Loss of granting to a malicious extension.
pub const GRANT_MALICIOUS: f64 = 100.0;
/// Loss of denying a benign extension.
pub const DENY_BENIGN: f64 = 2.0;
/// Loss of denying a malicious one.
pub const DENY_MALICIOUS: f64 = 1.0;

/// What is known about an extension, each signal with the probability it alone gives for malice.
///
/// Signals come from the scan and from observed calls, never from what a package says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// `(name, probability)`, in the order they were found.
    pub signals: Vec<(String, f64)>,
}

impl Evidence {
    /// Probability of malice: independent signals, combined as *not all harmless*.
    pub fn probability(&self) -> f64 {
        1.0 - self.signals.iter().fold(1.0, |harmless, (_, p)| harmless * (1.0 - p.clamp(0.0, 1.0)))
    }

    /// Expected loss of both choices.
    pub fn expected_loss(&self) -> ExpectedLoss {
        ExpectedLoss::of(self.probability())
    }
}

/// Expected loss of the two choices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExpectedLoss {
    /// Probability of malice it was computed from.
    pub p: f64,
    /// Of granting.
    pub grant: f64,
    /// Of denying.
    pub deny: f64,
}

impl ExpectedLoss {
    /// Computes both from the probability of malice.
    pub fn of(p: f64) -> Self {
        Self { p, grant: GRANT_MALICIOUS * p, deny: DENY_BENIGN * (1.0 - p) + DENY_MALICIOUS * p }
    }

    /// Whether granting costs less than denying.
    pub fn favours_grant(&self) -> bool {
        self.grant < self.deny
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_two_in_a_hundred_and_one() {
        assert!(ExpectedLoss::of(0.019).favours_grant());
        assert!(ExpectedLoss::of(0.0198).favours_grant());
        assert!(!ExpectedLoss::of(2.0 / 101.0 + 1e-12).favours_grant());
        assert!(!ExpectedLoss::of(0.02).favours_grant());
    }

    #[test]
    fn signals_add_up_but_never_past_certainty() {
        let evidence = Evidence { signals: vec![("exec".into(), 0.5), ("eval".into(), 0.5), ("bad".into(), 7.0)] };
        assert!((evidence.probability() - 1.0).abs() < 1e-12);
        assert_eq!(Evidence::default().probability(), 0.0);
    }
}
