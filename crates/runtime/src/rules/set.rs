//! Reads all rules of a session, with the state of each.

use super::settings;
use super::sources::{RuleFileSet, RuleProgram, RuleSources, RuleStamp};
use crate::config::RulesConfig;
use crate::environment::Environment;
use crate::notices::Notices;
use crate::user_error::{Result, UserError};
use pijs_agent::{ChangedRules, RuleSource, SessionRules};
use pijs_rules::activity::{MAIN_AGENT, activities};
use pijs_rules::engine::EngineOptions;
use pijs_rules::{Activity, Bucket, ParsedFile, Rule, RuleEngine, RuleSettings, built_in, lint};
use pijs_terminal::counted;
use std::path::{Path, PathBuf};

/// Rules and their settings.
pub struct RuleSet {
    /// The settings `ttsr.*`.
    pub settings: RuleSettings,
    /// All rule files with their findings.
    pub files: Vec<ParsedFile>,
    /// Files and folders that cannot be read.
    pub problems: Vec<String>,
    /// The project's folder of rules, when the project is not trusted.
    pub untrusted: Option<PathBuf>,
    /// Set when the settings turn rules on.
    pub is_on: bool,
    /// Set when an option of the run turns rules on, so that a session without a rule file is an error.
    is_asked_for: bool,
    sources: RuleSources,
    has_built_in: bool,
    cwd: PathBuf,
}

impl RuleSet {
    /// Reads the rules of this folder, trusted or not, for a command about them; those at `paths` instead, if there are any.
    /// `paths_of` is the option or command that takes these paths.
    pub fn read(environment: &Environment, paths: &[PathBuf], paths_of: &str, peers: &[RuleProgram]) -> Result<Self> {
        let args = RulesConfig { from: peers.to_vec(), ..RulesConfig::default() };
        let given = settings::read(environment, &args)?;
        let is_on = settings::read(environment, &RulesConfig::default())?.rules.enabled;
        let sources = match paths {
            [] => RuleSources::all(environment, &given.peers),
            paths => {
                if let Some(missing) = paths.iter().find(|path| !environment.dirs.cwd.join(path).exists()) {
                    return Err(UserError::usage(format!("{} does not exist", missing.display()))
                        .help(format!("give {paths_of} a rule file, or a folder of rule files (*.md, *.mdc)")));
                }
                RuleSources::of(paths.iter().map(|path| environment.dirs.cwd.join(path)))
            }
        };
        Ok(Self::over(sources, given.rules, given.has_built_in, is_on, &environment.dirs.cwd))
    }

    /// Reads the rules of a session here; `None` when rules are off.
    pub fn of_session(environment: &Environment, args: &RulesConfig) -> Result<Option<Self>> {
        let given = settings::read(environment, args)?;
        let is_on = given.rules.enabled;
        let sources = || RuleSources::of_session(environment, &given.peers);
        let set = || Self::over(sources(), given.rules.clone(), given.has_built_in, true, &environment.dirs.cwd);
        let is_asked_for = args.enabled.unwrap_or(!args.from.is_empty());
        Ok(is_on.then(|| Self { is_asked_for, ..set() }))
    }

    fn over(sources: RuleSources, settings: RuleSettings, has_built_in: bool, is_on: bool, cwd: &Path) -> Self {
        let found = sources.read();
        let mut files = found.files;
        if has_built_in {
            files.extend(built_in::files());
        }
        let (problems, untrusted) = (found.problems, found.untrusted);
        let (is_asked_for, cwd) = (false, cwd.to_owned());
        Self { settings, files, problems, untrusted, is_on, is_asked_for, sources, has_built_in, cwd }
    }

    /// Turns rules on, whatever the settings are.
    pub fn turn_on(&mut self) {
        self.settings.enabled = true;
    }

    /// Returns all rules without those that files turn off (`enabled: false`).
    pub fn rules(&self) -> Vec<Rule> {
        rules_of(&self.files)
    }

    /// Returns each rule with its state.
    pub fn with_activity(&self) -> Vec<(Rule, Activity)> {
        let rules = self.rules();
        let activities = activities(&rules, &self.settings, Some(MAIN_AGENT));
        rules.into_iter().zip(activities).collect()
    }

    /// Builds an engine whose trace keeps up to `trace` entries.
    pub fn engine(&self, trace: usize) -> RuleEngine {
        let cwd = self.cwd.display().to_string();
        RuleEngine::new(self.rules(), self.settings.clone(), EngineOptions { cwd, trace, ..EngineOptions::default() })
    }

    /// Builds the rules of a session. Errors in rule files are warnings, one for each file; `pi rules lint` explains them.
    pub fn into_session(self, notices: &Notices) -> SessionRules {
        let errors = session_lines(&self.problems, &self.files, &self.settings);
        for error in errors.iter().take(MAX_LINES) {
            notices.warn(error);
        }
        if errors.len() > MAX_LINES {
            let more = counted(errors.len() - MAX_LINES, "more rule file");
            notices.warn(format!("{more} with errors; to see them all: pi rules lint"));
        }
        if let Some(folder) = &self.untrusted {
            let folder = folder.display();
            notices.warn(format!("the rules in {folder} are left out; `pi trust` enables this folder's own rules"));
        }
        if self.is_asked_for && self.files.is_empty() && errors.is_empty() && self.untrusted.is_none() {
            notices.warn(self.nothing_found());
        }
        let mut engine = self.engine(0);
        // Mistakes are reported by the errors, with their positions.
        for report in engine.take_reports().into_iter().filter(|report| !report.is_mistake) {
            notices.warn(report);
        }
        let prompt_section = prompt_section(&self.rules(), &self.settings);
        let Self { sources, settings, has_built_in, .. } = self;
        let stamp = sources.stamp();
        let source = ChangedFiles { sources, settings, has_built_in, stamp, reported: errors };
        SessionRules::new(engine, Some(Box::new(source))).with_prompt_section(prompt_section)
    }

    /// Returns the message about missing rule files, with the folders that were searched.
    pub fn nothing_found(&self) -> String {
        let folders: Vec<String> = self.sources.searched.iter().map(|path| path.display().to_string()).collect();
        format!("no rule file (*.md, *.mdc) in {}; `pi rules init` writes an example", folders.join(", "))
    }
}

/// Writes the section of the system prompt about rules that check no stream: the texts of those with `alwaysApply`, and the paths
/// of the others.
fn prompt_section(rules: &[Rule], settings: &RuleSettings) -> Option<String> {
    let activities = activities(rules, settings, Some(MAIN_AGENT));
    let of_bucket = |bucket: Bucket| {
        rules.iter().zip(&activities).filter(move |(_, activity)| activity.bucket == bucket).map(|(rule, _)| rule)
    };
    let mut parts: Vec<String> = of_bucket(Bucket::Always).map(|rule| rule.content.trim().to_owned()).collect();
    let listed: Vec<String> = of_bucket(Bucket::Rulebook)
        .filter_map(|rule| {
            let path = rule.path.as_ref()?.display();
            Some(format!("- {} ({path}): {}", rule.name, rule.description.as_deref().unwrap_or_default()))
        })
        .collect();
    if !listed.is_empty() {
        let head = "Rules of this project. Read the file of a rule when its subject comes up:";
        parts.push(format!("{head}\n{}", listed.join("\n")));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Maximum number of files whose errors a session shows.
const MAX_LINES: usize = 3;

/// Returns one line for each file with an error, unreadable ones first.
fn session_lines(problems: &[String], files: &[ParsedFile], settings: &RuleSettings) -> Vec<String> {
    [problems.to_vec(), lint::error_lines(files, settings)].concat()
}

fn rules_of(files: &[ParsedFile]) -> Vec<Rule> {
    files.iter().flat_map(|file| &file.rules).cloned().collect()
}

/// Reads the rule files again when one has changed.
struct ChangedFiles {
    sources: RuleSources,
    settings: RuleSettings,
    has_built_in: bool,
    stamp: RuleStamp,
    /// Mistakes that were reported.
    reported: Vec<String>,
}

impl RuleSource for ChangedFiles {
    fn changed(&mut self) -> Option<ChangedRules> {
        let stamp = self.sources.stamp();
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        let RuleFileSet { mut files, problems, .. } = self.sources.read();
        let errors = session_lines(&problems, &files, &self.settings);
        let warnings = errors.iter().filter(|error| !self.reported.contains(error)).cloned().collect();
        self.reported = errors;
        if self.has_built_in {
            files.extend(built_in::files());
        }
        let rules = rules_of(&files);
        let prompt_section = prompt_section(&rules, &self.settings);
        Some(ChangedRules { rules, prompt_section, warnings })
    }
}
