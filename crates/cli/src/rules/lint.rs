//! `pi rules lint`: prints the findings in rule files, with the line and a hint.

use crate::args::values::peer;
use crate::output::stdout;
use clap::Args;
use pijs_rules::diagnostic::printable;
use pijs_rules::{Diagnostic, Severity, lint};
use pijs_runtime::Environment;
use pijs_runtime::rules::RuleProgram;
use pijs_runtime::rules::RuleSet;
use pijs_runtime::{Result, UserError};
use pijs_terminal::counted;
use serde_json::json;
use std::path::PathBuf;

/// `pi rules lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Rule files or folders; without one, all rules of this folder
    paths: Vec<PathBuf>,
    /// Also check rules of other programs, or the built-in ones
    #[arg(long = "rules-from", value_name = "PROGRAMS", value_delimiter = ',', value_parser = peer())]
    peers: Vec<RuleProgram>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `pi rules lint`. Fails if a rule or a part of it cannot work.
pub(crate) fn run(environment: &Environment, args: &LintArgs) -> Result<()> {
    let mut set = RuleSet::read(environment, &args.paths, "pi rules lint", &args.peers)?;
    set.turn_on();
    let findings = lint::lint(&set.files, &set.settings);
    let count = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error) + set.problems.len(), count(Severity::Warning));
    if args.json {
        stdout(&json!({"findings": findings, "problems": set.problems}).to_string());
    } else {
        for problem in &set.problems {
            stdout(&format!("error: {problem}\n"));
        }
        for finding in &findings {
            stdout(&format!("{}\n", relative(environment, finding).render()));
        }
        if set.files.is_empty() && set.problems.is_empty() {
            stdout(&printable(&set.nothing_found()));
        }
        let files = counted(set.files.len(), "rule file");
        stdout(&format!("{files}: {}, {}", counted(errors, "error"), counted(warnings, "warning")));
    }
    match errors {
        0 => Ok(()),
        _ => Err(UserError::failed(format!("{} in rule files", counted(errors, "error")))
            .help("fix the marked text, then run pi rules lint again")),
    }
}

/// Shortens the path of a finding as `pi rules list` does.
fn relative(environment: &Environment, finding: &Diagnostic) -> Diagnostic {
    Diagnostic { path: super::list::shown(environment, &finding.path).into(), ..finding.clone() }
}
