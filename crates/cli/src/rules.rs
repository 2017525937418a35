//! `pi rules`, and the options of streamed rules. The rules of a session are in [`pijs_runtime::rules`].
//!
//! | module | content |
//! |---|---|
//! | `list`, `lint`, `init` | commands on rule files |
//! | `try_out` | `pi rules test`: rules over a file, standard input or cases |
//! | `sessions` | `pi rules scan`, `explain` and `stats`: rules over session files |

mod init;
mod lint;
mod list;
mod sessions;
mod try_out;

use crate::args::values::peer;
use clap::{Args, Subcommand};
use pijs_rules::diagnostic::printable;
use pijs_rules::{RuleEngine, RuleReport};
use pijs_runtime::Environment;
use pijs_runtime::rules::{RuleProgram, RuleSet};
use pijs_runtime::{Result, UserError};
use pijs_terminal::counted;
use std::path::PathBuf;

/// `pi rules ...`
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List the rules of this folder: active ones, and why others are inactive
    List(FromArgs),
    /// Print a rule: its file, its conditions and its scope
    Show {
        /// The rule's name
        name: String,
        #[command(flatten)]
        from: FromArgs,
    },
    /// Show the matches of a rule in a session, and why it fired or did not
    Explain(sessions::ExplainArgs),
    /// Check rule files; exit with 1 when a rule cannot work
    Lint(lint::LintArgs),
    /// Run rules over a file or standard input, as if a model wrote it
    Test(try_out::TestArgs),
    /// Run rules over the replies of session files
    Scan(sessions::ScanArgs),
    /// Count firings of rules in past sessions, and the tokens that they cost
    Stats(sessions::StatsArgs),
    /// Write a commented example rule
    Init(init::InitArgs),
}

/// Options of a run that concern streamed rules.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RuleArgs {
    /// Enable streamed rules for this run; rule files are in .pi/rules and ~/.pi/rules
    #[arg(long, overrides_with = "no_rules", help_heading = "Rules")]
    pub(crate) rules: bool,
    /// Disable streamed rules for this run
    #[arg(long, help_heading = "Rules")]
    pub(crate) no_rules: bool,
    /// Also use rules of other programs, or the built-in ones; enables rules
    #[arg(long, value_name = "PROGRAMS", value_delimiter = ',', value_parser = peer(), help_heading = "Rules")]
    pub(crate) rules_from: Vec<RuleProgram>,
}

/// Options that select rule files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FromArgs {
    /// A folder of rules, or a rule file, instead of the usual ones; repeatable
    #[arg(long = "rules", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Also use rules of other programs, or the built-in ones
    #[arg(long = "rules-from", value_name = "PROGRAMS", value_delimiter = ',', value_parser = peer())]
    pub(crate) peers: Vec<RuleProgram>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl FromArgs {
    fn read(&self, environment: &Environment) -> Result<RuleSet> {
        let mut set = RuleSet::read(environment, &self.paths, "--rules", &self.peers)?;
        // Commands about rules work even if rules are disabled.
        set.turn_on();
        Ok(set)
    }
}

/// Takes the reports on conditions that were given up or tested less often, for the selected rules.
fn take_reports(engine: &mut RuleEngine, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    // `pi rules lint` reports mistakes in files.
    let is_shown = |report: &RuleReport| !report.is_mistake && is_wanted(report.rule.as_str());
    engine.take_reports().into_iter().filter(is_shown).map(|report| printable(&report.to_string())).collect()
}

/// Returns the error for `--fail` when it is unknown whether the patterns of these reports match.
fn given_up(reports: usize) -> UserError {
    UserError::failed(format!("{} could not be tested to the end", counted(reports, "condition")))
        .help("rewrite the conditions that the warnings name, without repetition inside of repetition")
}

/// Runs `pi rules ...`.
pub(crate) fn run(environment: &Environment, command: RulesCommand) -> Result<()> {
    match command {
        RulesCommand::List(from) => list::list(environment, &from),
        RulesCommand::Show { name, from } => list::show(environment, &name, &from),
        RulesCommand::Explain(args) => sessions::explain(environment, &args),
        RulesCommand::Lint(args) => lint::run(environment, &args),
        RulesCommand::Test(args) => try_out::run(environment, &args),
        RulesCommand::Scan(args) => sessions::scan(environment, &args),
        RulesCommand::Stats(args) => sessions::stats(environment, &args),
        RulesCommand::Init(args) => init::run(environment, &args),
    }
}
