//! Runs the cases of `fixtures/rules/oracle` and compares the results with oh-my-pi's.
//!
//! A rule has to fire at the delta at which oh-my-pi's matching first allows it (`first`), and a session has to be interrupted
//! there, with the same rules (`live`). Where oh-my-pi is wrong, `deviations.toml` contains the result of PiJS and the reason; an
//! unnecessary entry is an error.

use pijs_rules::file::{self, Format};
use pijs_rules::{
    EngineOptions, Firing, InterruptMode, MatchContext, Origin, Rule, RuleEngine, RuleSettings, StreamKind,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Delta at which each rule first fires. The number of deltas denotes the end of the call.
type First = BTreeMap<String, usize>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    id: String,
    #[serde(default)]
    settings: serde_json::Map<String, serde_json::Value>,
    agent: Option<String>,
    #[serde(flatten)]
    message: Option<Message>,
    #[serde(default)]
    turns: Vec<Message>,
}

#[derive(Deserialize, Clone)]
struct Message {
    source: StreamKind,
    tool: Option<String>,
    deltas: Vec<String>,
}

#[derive(Deserialize)]
struct Expected {
    rules: Vec<ExpectedRule>,
    cases: Vec<ExpectedCase>,
}

#[derive(Deserialize)]
struct ExpectedRule {
    name: String,
    bucket: String,
}

#[derive(Deserialize)]
struct ExpectedCase {
    id: String,
    first: Option<First>,
    first_raw_json: Option<First>,
    live: Live,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Live {
    Turns { turns: Vec<LiveMessage> },
    One(LiveMessage),
}

#[derive(Deserialize)]
struct LiveMessage {
    aborted_at: Option<usize>,
    #[serde(default)]
    persisted: Vec<String>,
}

/// A result that differs from oh-my-pi's, with the reason.
#[derive(Deserialize)]
struct Deviation {
    case: String,
    /// Expected delta of each rule.
    first: First,
    reason: String,
}

#[derive(Deserialize)]
struct Deviations {
    deviation: Vec<Deviation>,
}

/// The cases with their rules.
pub struct Suite {
    cases: Vec<Case>,
    rules: Vec<Rule>,
    names: BTreeSet<String>,
    buckets: BTreeMap<String, String>,
    expected: BTreeMap<String, ExpectedCase>,
    deviations: BTreeMap<String, Deviation>,
}

/// Returns the folder of the cases.
fn folder() -> PathBuf {
    crate::fixture("rules/oracle")
}

/// Returns the rules of a folder of oh-my-pi's files.
pub fn load(folder: &Path, origin: Origin) -> Vec<Rule> {
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a folder can be listed").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md" || extension == "mdc"));
    files.sort();
    let mut rules = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("rules are text");
        rules.extend(file::parse(&path, &text, Format::Omp, origin).rules);
    }
    rules
}

impl Suite {
    /// Reads the cases. oh-my-pi's bundled rules are not part of this repository; cases about these rules run only if `bundled`
    /// provides the rules.
    pub fn new(bundled: Option<Vec<Rule>>) -> Self {
        let read =
            |name: &str| fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut cases: Vec<Case> = serde_json::from_str(&read("cases.json")).expect("cases are data");
        let expected: Expected = serde_json::from_str(&read("expected.json")).expect("answers are data");
        let deviations: Deviations = toml::from_str(&read("deviations.toml")).expect("deviations are data");
        for entry in &deviations.deviation {
            assert!(cases.iter().any(|case| case.id == entry.case), "deviations.toml: there is no case {}", entry.case);
        }
        if bundled.is_none() {
            cases.retain(|case| !case.id.starts_with("b-"));
        }
        let mut rules = load(&folder().join("rules"), Origin::Project);
        rules.extend(bundled.unwrap_or_default());
        Self {
            cases,
            names: rules.iter().map(|rule| rule.name.as_str().to_owned()).collect(),
            buckets: expected.rules.into_iter().map(|rule| (rule.name, rule.bucket)).collect(),
            rules,
            expected: expected.cases.into_iter().map(|case| (case.id.clone(), case)).collect(),
            deviations: deviations.deviation.into_iter().map(|entry| (entry.case.clone(), entry)).collect(),
        }
    }

    /// Returns the ids of the cases.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|case| case.id.as_str())
    }

    /// Runs a case and compares the results with oh-my-pi's.
    pub fn check_case(&self, id: &str) -> Result<(), String> {
        self.check(self.cases.iter().find(|case| case.id == id).ok_or("is not a case")?)
    }

    /// Compares whether each rule reads streams.
    pub fn check_rules(&self) -> Result<(), String> {
        let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
        let activities = pijs_rules::activity::activities(&self.rules, &settings, Some("main"));
        let ours: BTreeSet<&str> = std::iter::zip(&self.rules, activities)
            .filter(|(_, activity)| activity.bucket == pijs_rules::activity::Bucket::Stream)
            .map(|(rule, _)| rule.name.as_str())
            .collect();
        // A rule with `question` reads no stream, because PiJS has no judging model.
        let theirs = self.buckets.iter().filter(|(name, bucket)| *bucket == "ttsr" && *name != "dv-question");
        let theirs: BTreeSet<&str> =
            theirs.map(|(name, _)| name.as_str()).filter(|&name| self.names.contains(name)).collect();
        if ours == theirs { Ok(()) } else { Err(format!("ours: {ours:?}\ntheirs: {theirs:?}")) }
    }

    fn check(&self, case: &Case) -> Result<(), String> {
        let expected = self.expected.get(&case.id).ok_or("oh-my-pi has no result for it")?;
        if let (Some(message), Some(first)) = (&case.message, &expected.first) {
            let theirs: First = first
                .iter()
                .filter(|(name, _)| self.names.contains(*name))
                .map(|(name, &at)| (name.clone(), at))
                .collect();
            let ours = self.first(case, message);
            match self.deviations.get(&case.id) {
                Some(_) if ours == theirs => {
                    return Err("no longer deviates: remove it from deviations.toml".to_owned());
                }
                Some(entry) if entry.reason.trim().is_empty() => return Err("its deviation has no reason".to_owned()),
                Some(entry) if ours != entry.first => {
                    return Err(format!("first: {ours:?}, but its deviation says {:?}", entry.first));
                }
                None if ours != theirs => return Err(format!("first: {ours:?}, but oh-my-pi has {theirs:?}")),
                _ => {}
            }
            self.check_live(case, expected, &ours)?;
        } else {
            self.check_turns(case, expected)?;
        }
        Ok(())
    }

    fn settings(&self, case: &Case) -> RuleSettings {
        let mut settings = case.settings.clone();
        // The defaults of oh-my-pi, which has no caps.
        for (name, value) in [("enabled", true.into()), ("interruptMode", "always".into())] {
            settings.entry(name).or_insert(value);
        }
        let mut settings: RuleSettings = serde_json::from_value(settings.into()).expect("settings are those of pi");
        settings.max_retries_per_turn = u32::MAX;
        settings.max_retries_per_session = u32::MAX;
        settings
    }

    fn engine(&self, case: &Case, settings: RuleSettings) -> RuleEngine {
        let agent = case.agent.clone().unwrap_or_else(|| "main".to_owned());
        let options = EngineOptions { agent, cwd: "/proj".to_owned(), trace: 0 };
        RuleEngine::new(self.rules.clone(), settings, options)
    }

    /// Reads a whole message, continuing after rules fire.
    fn first(&self, case: &Case, message: &Message) -> First {
        let mut settings = self.settings(case);
        settings.interrupt_mode = InterruptMode::Always;
        settings.repeat_mode = pijs_rules::settings::RepeatMode::AfterGap;
        settings.repeat_gap = 0;
        let mut engine = self.engine(case, settings);
        let mut first = First::new();
        read(&mut engine, message, |at, firing| {
            for rule in &firing.rules {
                first.entry(rule.name.as_str().to_owned()).or_insert(at);
            }
            false
        });
        first
    }

    /// Reads a message as a session does. oh-my-pi parses arguments rarely, so it may interrupt later; it also interrupts on raw
    /// JSON, which is marked in its recorded results.
    fn check_live(&self, case: &Case, expected: &ExpectedCase, first: &First) -> Result<(), String> {
        let Live::One(theirs) = &expected.live else { return Err("expects several turns".to_owned()) };
        let message = case.message.as_ref().ok_or("has no message")?;
        let mut engine = self.engine(case, self.settings(case));
        let mut interrupted = None;
        read(&mut engine, message, |at, firing| {
            if firing.interrupts() {
                interrupted = Some(at);
            }
            firing.interrupts()
        });
        if let Some(at) = interrupted {
            let earliest = first.values().copied().min();
            if earliest.is_none_or(|earliest| at < earliest) {
                return Err(format!("is interrupted at {at}, before a rule fires"));
            }
        }
        let is_listed = self.deviations.contains_key(&case.id) || expected.first_raw_json.is_some();
        let is_bundled = theirs.persisted.iter().any(|name| !self.names.contains(name));
        match (interrupted, theirs.aborted_at) {
            _ if is_listed || is_bundled => Ok(()),
            (None, None) => Ok(()),
            (Some(ours), Some(theirs)) if ours <= theirs => Ok(()),
            (ours, theirs) => Err(format!("is interrupted at {ours:?}, but oh-my-pi at {theirs:?}")),
        }
    }

    fn check_turns(&self, case: &Case, expected: &ExpectedCase) -> Result<(), String> {
        let Live::Turns { turns } = &expected.live else { return Err("expects one turn".to_owned()) };
        let mut engine = self.engine(case, self.settings(case));
        for (number, (message, theirs)) in std::iter::zip(&case.turns, turns).enumerate() {
            engine.begin_turn();
            engine.reset_buffers();
            let (mut interrupted, mut fired) = (None, Vec::new());
            read(&mut engine, message, |at, firing| {
                fired.extend(firing.rules.iter().map(|rule| rule.name.as_str().to_owned()));
                if firing.interrupts() {
                    interrupted = Some(at);
                }
                firing.interrupts()
            });
            engine.end_turn();
            if (interrupted, &fired) != (theirs.aborted_at, &theirs.persisted) {
                let theirs = (theirs.aborted_at, &theirs.persisted);
                return Err(format!("turn {number}: {:?}, but oh-my-pi has {theirs:?}", (interrupted, fired)));
            }
        }
        Ok(())
    }
}

/// Feeds a message to the engine, delta by delta, until `stop` returns `true`.
fn read(engine: &mut RuleEngine, message: &Message, mut stop: impl FnMut(usize, &Firing) -> bool) {
    let context = match message.source {
        StreamKind::Text => MatchContext::text(0),
        StreamKind::Thinking => MatchContext::thinking(0),
        StreamKind::Tool => MatchContext::tool(message.tool.as_deref().unwrap_or_default(), "call", 0),
    };
    for (at, delta) in message.deltas.iter().enumerate() {
        if engine.check_delta(delta, &context).is_some_and(|firing| stop(at, &firing)) {
            return;
        }
    }
    let end = message.deltas.len();
    if message.source == StreamKind::Tool && engine.end_of_call(&context).is_some_and(|firing| stop(end, &firing)) {
        return;
    }
    for firing in engine.end_of_message(0) {
        stop(end, &firing);
    }
}
