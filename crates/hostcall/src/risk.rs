//! Evidence and expected loss: the risk score that explains a decision (`docs/spec/capabilities.md`).
//!
//! The score never grants more than the policy allows. With the matrix of that page the rule is *grant when `100 p < 2 (1 - p) +
//! p`*, that is `p < 2/101`, about 1.98 %.
//!
//! Signals come from the scan of the code and from its calls, never from the declaration of a package, which is only compared
//! with the signals. The weights are estimates, chosen so that an extension that reads the project and contacts one named server
//! stays below the threshold, and one that may run any program does not.

use pijs_protocol::artifact::Verdict;
use pijs_protocol::manifest::{CapabilityManifest, CapabilityRequest};
use serde::Serialize;

/// Loss of granting a capability to a malicious extension.
pub const GRANT_MALICIOUS: f64 = 100.0;
/// Loss of denying a capability to a benign extension.
pub const DENY_BENIGN: f64 = 2.0;
/// Loss of denying a capability to a malicious extension.
pub const DENY_MALICIOUS: f64 = 1.0;

/// One fact about an extension that affects its risk score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The code reads files outside of the project.
    ReadsOutside,
    /// The code changes files.
    UsesWrite,
    /// The code runs programs that are literals in its text.
    UsesExec,
    /// The code runs programs that are not literals in its text, or that run other programs.
    UsesAnyExec,
    /// The code contacts servers that are literals in its text.
    UsesHttp,
    /// The code contacts servers that are not literals in its text.
    UsesAnyHttp,
    /// The code reads environment variables other than the free ones.
    UsesEnv,
    /// The code changes the model's context or actions.
    SteersTheModel,
    /// The code runs code that is not part of the package.
    UsesEval,
    /// The extension may read files and contact servers.
    CanSendFiles,
    /// The scan found unsupported code.
    Blocked,
    /// The source has invisible characters.
    HiddenText,
    /// The extension declares capabilities, but its code needs one that it does not declare.
    Undeclared,
    /// The extension claimed a capability other than the one that its call needed.
    Spoofed,
    /// The extension tried to access a protected path.
    TriedProtected,
    /// The extension used a capability that the scan had not found.
    Unforeseen,
}

impl Signal {
    /// Returns the probability of malice given this signal alone.
    pub fn weight(self) -> f64 {
        match self {
            Self::UsesHttp | Self::SteersTheModel => 0.001,
            Self::UsesExec | Self::UsesWrite | Self::UsesEnv => 0.002,
            Self::ReadsOutside | Self::UsesAnyHttp | Self::CanSendFiles => 0.005,
            Self::Unforeseen | Self::Blocked | Self::UsesEval => 0.01,
            Self::UsesAnyExec => 0.02,
            Self::Undeclared => 0.03,
            Self::HiddenText | Self::TriedProtected => 0.05,
            Self::Spoofed => 0.5,
        }
    }

    /// Returns whether the requested capabilities, or the warning about a combination of them, convey the same information.
    pub fn repeats_request(self) -> bool {
        match self {
            Self::ReadsOutside | Self::UsesWrite | Self::UsesExec | Self::UsesAnyExec | Self::UsesHttp => true,
            Self::UsesAnyHttp | Self::UsesEnv | Self::SteersTheModel | Self::UsesEval | Self::CanSendFiles => true,
            Self::Blocked | Self::HiddenText | Self::Undeclared | Self::Spoofed => false,
            Self::TriedProtected | Self::Unforeseen => false,
        }
    }

    /// Describes the signal for the user.
    pub fn words(self) -> &'static str {
        match self {
            Self::ReadsOutside => "its code reads files outside of the project",
            Self::UsesWrite => "its code changes files",
            Self::UsesExec => "its code runs programs that it names",
            Self::UsesAnyExec => "its code can run any program",
            Self::UsesHttp => "its code talks to servers that it names",
            Self::UsesAnyHttp => "its code can talk to any server",
            Self::UsesEnv => "its code reads environment variables",
            Self::SteersTheModel => "its code changes the model's context or actions",
            Self::UsesEval => "its code runs code that is not part of it",
            Self::CanSendFiles => "it can read files and talk to servers",
            Self::Blocked => "its code uses unsupported features",
            Self::HiddenText => "its source contains invisible characters",
            Self::Undeclared => "its code needs a capability that its manifest does not declare",
            Self::Spoofed => "it claimed a capability other than the one that its call needed",
            Self::TriedProtected => "it tried to access a protected path",
            Self::Unforeseen => "it used a capability that the scan had not found",
        }
    }
}

/// The evidence about an extension.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Signals without duplicates, in the order of discovery.
    signals: Vec<Signal>,
    /// Capabilities that the scan found; `None` without a scan.
    #[serde(skip)]
    found: Option<Vec<String>>,
}

impl Evidence {
    /// Returns the evidence of a scan. `findings` are its codes and classes; `declared` is the package's declaration.
    pub fn of_scan<'a>(
        found: &CapabilityManifest,
        findings: impl IntoIterator<Item = (&'a str, Verdict)>,
        declared: Option<&CapabilityManifest>,
    ) -> Self {
        let mut evidence = Self {
            found: Some(found.capabilities.iter().map(|request| request.capability.as_str().to_owned()).collect()),
            ..Self::default()
        };
        for request in &found.capabilities {
            if let Some(signal) = signal_of(request) {
                evidence.add(signal);
            }
        }
        if evidence.found("http") && evidence.found("read") {
            evidence.add(Signal::CanSendFiles);
        }
        for (code, class) in findings {
            if code == "BD_HIDDEN_TEXT" {
                evidence.add(Signal::HiddenText);
            } else if class == Verdict::Blocked {
                evidence.add(Signal::Blocked);
            }
        }
        let names =
            |name: &str| declared.iter().any(|all| all.capabilities.iter().any(|one| one.capability.as_str() == name));
        let privileged = ["read", "write", "exec", "http", "env"];
        if declared.is_some() && privileged.iter().any(|name| evidence.found(name) && !names(name) && *name != "read") {
            evidence.add(Signal::Undeclared);
        }
        evidence
    }

    /// Adds a signal, unless it is already present.
    pub fn add(&mut self, signal: Signal) {
        if !self.has(signal) {
            self.signals.push(signal);
        }
    }

    /// Returns whether a signal is present.
    pub fn has(&self, signal: Signal) -> bool {
        self.signals.contains(&signal)
    }

    /// Returns all signals, in the order of discovery.
    pub fn signals(&self) -> &[Signal] {
        &self.signals
    }

    fn found(&self, capability: &str) -> bool {
        self.found.as_ref().is_some_and(|found| found.iter().any(|name| name == capability))
    }

    /// Returns whether a scan did not find this capability.
    pub(crate) fn not_foreseen(&self, capability: &str) -> bool {
        self.found.is_some() && !self.found(capability)
    }

    /// Returns the probability of malice. The signals are treated as independent: the result is one minus the probability that
    /// all are harmless.
    pub fn probability(&self) -> f64 {
        combined(self.signals.iter().map(|signal| signal.weight()))
    }

    /// Returns the expected loss of granting and of denying.
    pub fn expected_loss(&self) -> ExpectedLoss {
        ExpectedLoss::of(self.probability())
    }
}

fn combined(weights: impl Iterator<Item = f64>) -> f64 {
    1.0 - weights.fold(1.0, |harmless, p| harmless * (1.0 - p.clamp(0.0, 1.0)))
}

fn signal_of(request: &CapabilityRequest) -> Option<Signal> {
    let scope = request.scope.as_ref();
    Some(match request.capability.as_str() {
        "read" => {
            let outside = |path: &String| path.starts_with('/') || path.starts_with('~') || path.starts_with("<home>");
            let paths = scope.and_then(|scope| scope.paths.as_ref());
            return paths.is_some_and(|paths| paths.iter().any(outside)).then_some(Signal::ReadsOutside);
        }
        "write" => Signal::UsesWrite,
        "exec" => {
            let plain = |line: &String| {
                let program = crate::variables::split_assignments(line).1.first().copied().unwrap_or_default();
                pijs_programs::kind_of(program) != pijs_programs::Kind::Interpreter
            };
            match scope.and_then(|scope| scope.commands.as_ref()) {
                Some(commands) if commands.iter().all(plain) => Signal::UsesExec,
                _ => Signal::UsesAnyExec,
            }
        }
        "http" => match scope.and_then(|scope| scope.hosts.as_ref()) {
            Some(hosts) if !hosts.iter().any(|host| host == "*" || host == "tcp://*") => Signal::UsesHttp,
            _ => Signal::UsesAnyHttp,
        },
        "env" => Signal::UsesEnv,
        "eval" => Signal::UsesEval,
        "context.modify" | "prompt.modify" | "session.inject" | "tool.modify" | "provider" | "tool.shadow"
        | "compaction" | "verdict" => Signal::SteersTheModel,
        _ => return None,
    })
}

/// The expected loss of granting and of denying.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExpectedLoss {
    /// Probability of malice.
    pub p: f64,
    /// Expected loss of granting.
    pub grant: f64,
    /// Expected loss of denying.
    pub deny: f64,
}

impl ExpectedLoss {
    /// Computes both losses from the probability of malice.
    pub fn of(p: f64) -> Self {
        Self { p, grant: GRANT_MALICIOUS * p, deny: DENY_BENIGN * (1.0 - p) + DENY_MALICIOUS * p }
    }

    /// Returns whether granting has the lower loss.
    pub fn favours_grant(&self) -> bool {
        self.grant < self.deny
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_threshold_is_two_in_a_hundred_and_one() {
        assert!(ExpectedLoss::of(0.019).favours_grant());
        assert!(ExpectedLoss::of(0.0198).favours_grant());
        assert!(!ExpectedLoss::of(2.0 / 101.0 + 1e-12).favours_grant());
        assert!(!ExpectedLoss::of(0.02).favours_grant());
        // Equal losses do not favour granting.
        assert!(!ExpectedLoss { p: 0.0, grant: 1.0, deny: 1.0 }.favours_grant());
    }

    #[test]
    fn signals_add_up_but_never_past_certainty_and_count_once() {
        assert!((combined([0.5, 0.5, 7.0].into_iter()) - 1.0).abs() < 1e-12);
        assert_eq!(Evidence::default().probability(), 0.0);
        let mut evidence = Evidence::default();
        evidence.add(Signal::UsesExec);
        evidence.add(Signal::UsesExec);
        assert!((evidence.probability() - Signal::UsesExec.weight()).abs() < 1e-12);
    }

    #[derive(Deserialize)]
    struct Fixture {
        case: Vec<Scan>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Scan {
        name: String,
        #[serde(default)]
        scan: Vec<CapabilityRequest>,
        #[serde(default)]
        findings: Vec<(String, Verdict)>,
        declares: Option<Vec<CapabilityRequest>>,
        signals: Vec<String>,
        favours: String,
    }

    /// Runs `fixtures/gate/evidence.toml`.
    #[test]
    fn scans_give_the_expected_signals() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gate/evidence.toml");
        let text = std::fs::read_to_string(path).expect("a fixture is text");
        let Fixture { case } = toml::from_str(&text).expect("a fixture");
        assert!(case.len() > 15, "only {} cases were found", case.len());
        let manifest = |capabilities| CapabilityManifest {
            schema: pijs_protocol::manifest::CAPABILITY_SCHEMA.into(),
            capabilities,
        };
        for Scan { name, scan, findings, declares, signals, favours } in case {
            let findings = findings.iter().map(|(code, class)| (code.as_str(), *class));
            let evidence = Evidence::of_scan(&manifest(scan), findings, declares.map(manifest).as_ref());
            let found: Vec<String> = evidence.signals().iter().map(|signal| name_of(*signal)).collect();
            let choice = if evidence.expected_loss().favours_grant() { "grant" } else { "deny" };
            assert_eq!((found, choice), (signals, favours.as_str()), "{name}");
        }
    }

    fn name_of(signal: Signal) -> String {
        serde_json::to_value(signal).expect("a name").as_str().expect("a name").to_owned()
    }

    #[test]
    fn only_a_scanned_extension_can_be_unforeseen() {
        let write = CapabilityRequest { capability: "write".into(), methods: None, scope: None };
        let found = CapabilityManifest { schema: String::new(), capabilities: vec![write] };
        let scanned = Evidence::of_scan(&found, [], None);
        assert!(scanned.not_foreseen("exec") && !scanned.not_foreseen("write"));
        assert!(!Evidence::default().not_foreseen("exec"));
    }

    #[test]
    fn every_signal_has_its_own_description() {
        let all = [
            Signal::ReadsOutside,
            Signal::UsesWrite,
            Signal::UsesExec,
            Signal::UsesAnyExec,
            Signal::UsesHttp,
            Signal::UsesAnyHttp,
            Signal::UsesEnv,
            Signal::SteersTheModel,
            Signal::CanSendFiles,
            Signal::Blocked,
            Signal::HiddenText,
            Signal::Undeclared,
            Signal::Spoofed,
            Signal::TriedProtected,
            Signal::Unforeseen,
        ];
        let words: BTreeSet<&str> = all.iter().map(|signal| signal.words()).collect();
        assert_eq!(words.len(), all.len());
    }
}
