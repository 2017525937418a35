//! `pi rules test`: runs rules over a text as if a model wrote it, or over recorded cases.
//!
//! `--cases` reads a list of `{id, source, tool?, deltas, settings?, agent?}` (or `turns` of such messages) and prints for each
//! case a line `{"id", "first": {RULE: DELTA}}`: the number, from 0, of the delta at which each rule first fires if the stream is
//! never stopped; the total number of deltas stands for the end of a tool call. The settings are those of oh-my-pi: rules
//! interrupt everywhere and without limits.

use super::sessions::outcome;
use super::{given_up, list, take_reports};
use crate::args::values::peer;
use crate::output::{stderr, stdout};
use clap::{Args, ValueEnum};
use pijs_rules::activity::MAIN_AGENT;
use pijs_rules::diagnostic::printable;
use pijs_rules::engine::{EngineOptions, Outcome, TraceEntry};
use pijs_rules::settings::RepeatMode;
use pijs_rules::{
    CompiledScope, Firing, InterruptMode, MatchContext, Rule, RuleEngine, RuleSettings, ScopeToken, StreamKind,
};
use pijs_runtime::Environment;
use pijs_runtime::rules::RuleProgram;
use pijs_runtime::rules::RuleSet;
use pijs_runtime::{Result, UserError};
use pijs_terminal::counted;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Number of characters of a delta: about a token of a model.
const DELTA: usize = 4;
/// Maximum size of the text in bytes: far more than a reply has.
const MAX_TEXT: u64 = 64 << 20;

/// Maximum number of matches without effect whose reason is shown.
const MAX_TRACE: usize = 10;

/// `pi rules test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// A file, or - for standard input
    #[arg(required_unless_present = "cases")]
    file: Option<PathBuf>,
    /// Read the text as this; the default for a code file is a tool's output, for any other file a reply
    #[arg(long = "as", value_enum)]
    stream: Option<StreamArg>,
    /// The tool, for --as tool: write and edit get the text as content, bash as its command, others as JSON arguments
    #[arg(long, value_name = "NAME", default_value = "write")]
    tool: String,
    /// The path in the tool call; the path of the file by default
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only this rule; repeatable
    #[arg(short, long = "rule", value_name = "NAME")]
    only: Vec<String>,
    /// A folder of rules, or a rule file, instead of the usual ones; repeatable
    #[arg(long = "rules", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Also use rules of other programs, or the built-in ones
    #[arg(long = "rules-from", value_name = "PROGRAMS", value_delimiter = ',', value_parser = peer())]
    peers: Vec<RuleProgram>,
    /// Run recorded cases and print a line of JSON for each
    #[arg(long, value_name = "CASES.json", conflicts_with_all = ["file", "stream", "path"])]
    cases: Option<PathBuf>,
    /// Exit with 1 when a rule fires
    #[arg(long)]
    fail: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StreamArg {
    /// A reply
    Text,
    /// Reasoning
    Thinking,
    /// Arguments of a tool call
    Tool,
}

/// Runs `pi rules test`.
pub(crate) fn run(environment: &Environment, args: &TestArgs) -> Result<()> {
    let mut set = RuleSet::read(environment, &args.paths, "--rules", &args.peers)?;
    set.turn_on();
    for name in &args.only {
        list::find(&set, name)?;
    }
    if let Some(cases) = &args.cases {
        return run_cases(environment, &set, cases);
    }
    let file = args.file.as_deref().unwrap_or(Path::new("-"));
    let text = read_text(environment, file)?;
    let (firings, mut engine) = over_text(environment, &set, args, file, &text);
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let reports = take_reports(&mut engine, wanted);
    let hits = firings
        .iter()
        .flat_map(|firing| firing.rules.iter().map(move |rule| (firing, rule)))
        .filter(|(_, rule)| wanted(rule.name.as_str()));
    let mut count = 0;
    let mut rows = Vec::new();
    for (firing, rule) in hits {
        count += 1;
        if args.json {
            rows.push(json!({
                "rule": rule.name, "interrupts": rule.interrupts, "stream": firing.stream, "tool": firing.tool,
                "site": rule.site,
            }));
            continue;
        }
        let action = if rule.interrupts { "stops the reply" } else { "reminds" };
        let why = rule.degraded.map_or_else(String::new, |reason| format!(" ({reason})"));
        let site = &rule.site;
        stdout(&printable(&format!("{}: {action} at line {}, column {}{why}", rule.name, site.line, site.column)));
        stdout(&format!("  {}", printable(site.excerpt.trim_end())));
    }
    let active = set.with_activity();
    let active =
        active.iter().filter(|(rule, activity)| activity.reason.is_none() && wanted(rule.name.as_str())).count();
    if args.json {
        stdout(&json!({"rules": active, "hits": rows, "reports": reports}).to_string());
    } else if count == 0 {
        stdout(&format!("no rule fires ({active} active; `pi rules list` shows why others are not)"));
        for entry in engine.trace().filter(|entry| wanted(entry.rule.as_str())) {
            let (site, outcome) = (&entry.site, outcome(&entry.outcome));
            stdout(&printable(&format!(
                "{}: its match at line {}, column {} {outcome}",
                entry.rule, site.line, site.column
            )));
            stdout(&format!("  {}", printable(site.excerpt.trim_end())));
            let rule = engine.rules().find(|rule| rule.name == entry.rule);
            if let Some(options) = rule.and_then(|rule| other_options(args, file, entry, rule)) {
                stdout(&printable(&format!("  try {options}")));
            }
        }
    }
    reports.iter().for_each(|report| stderr(&format!("warning: {report}")));
    match (count, reports.len()) {
        (1.., _) if args.fail => Err(UserError::failed(format!("{} fired", counted(count, "rule")))),
        (_, count @ 1..) if args.fail => Err(given_up(count)),
        _ => Ok(()),
    }
}

/// Returns the options with which a match could have an effect.
fn other_options(args: &TestArgs, file: &Path, entry: &TraceEntry, rule: &Rule) -> Option<String> {
    let is_unnamed = args.path.is_none() && file == Path::new("-");
    match &entry.outcome {
        Outcome::PathUnknown | Outcome::PathMismatch { .. } if is_unnamed => Some("--path FILE".to_owned()),
        Outcome::OutOfScope => {
            let tool = rule.scope.iter().find_map(|token| match token {
                ScopeToken::Tool { name, .. } => name.as_deref(),
                _ => None,
            });
            let has_path = !rule.globs.is_empty() || rule.scope.iter().any(|token| token.to_string().ends_with(')'));
            let options = |stream: StreamKind| match stream {
                StreamKind::Text => "--as text".to_owned(),
                StreamKind::Thinking => "--as thinking".to_owned(),
                StreamKind::Tool => {
                    let tool = tool.map_or_else(String::new, |tool| format!(" --tool {tool}"));
                    format!("--as tool{tool}{}", if has_path { " --path FILE" } else { "" })
                }
            };
            Some(CompiledScope::new(rule).streams().map(options).collect::<Vec<_>>().join(", or "))
        }
        _ => None,
    }
}

fn read_text(environment: &Environment, file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_TEXT + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(environment.dirs.cwd.join(file))
            .and_then(|file| file.take(MAX_TEXT + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        UserError::failed(format!("{} cannot be read: {error}", file.display()))
            .help("give a file, or - for standard input: echo 'some text' | pi rules test -")
    })?;
    if bytes.len() as u64 > MAX_TEXT {
        let message = format!("{} is longer than {} MB", file.display(), MAX_TEXT >> 20);
        return Err(
            UserError::failed(message).help("test the part that matters: head -c 1000000 FILE | pi rules test -")
        );
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs the rules over a text. The trace of the engine explains matches that had no effect.
fn over_text(
    environment: &Environment,
    set: &RuleSet,
    args: &TestArgs,
    file: &Path,
    text: &str,
) -> (Vec<Firing>, RuleEngine) {
    let is_prose = |extension: &std::ffi::OsStr| extension == "md" || extension == "txt";
    let is_code = file != Path::new("-") && file.extension().is_some_and(|extension| !is_prose(extension));
    let stream = args.stream.unwrap_or(if is_code || args.path.is_some() { StreamArg::Tool } else { StreamArg::Text });
    let path = args.path.clone().unwrap_or_else(|| match file == Path::new("-") {
        true => "stdin.txt".to_owned(),
        false => list::shown(environment, &environment.dirs.cwd.join(file)),
    });
    let mut engine = set.engine(MAX_TRACE);
    let (context, text) = match stream {
        StreamArg::Text => (MatchContext::text(0), text.to_owned()),
        StreamArg::Thinking => (MatchContext::thinking(0), text.to_owned()),
        StreamArg::Tool => (MatchContext::tool(&args.tool, "call", 0), arguments(&args.tool, &path, text)),
    };
    let deltas = pieces(&text, DELTA);
    let mut firings: Vec<Firing> = deltas.filter_map(|delta| engine.check_delta(delta, &context)).collect();
    firings.extend(engine.end_of_message(0));
    (firings, engine)
}

/// Encodes a text as the arguments of a tool call.
fn arguments(tool: &str, path: &str, text: &str) -> String {
    let is_object = || matches!(serde_json::from_str(text), Ok(Value::Object(_)));
    match tool {
        "write" => json!({"path": path, "content": text}),
        "edit" => json!({"path": path, "edits": [{"oldText": "", "newText": text}]}),
        "bash" => json!({"command": text}),
        _ if is_object() => return text.to_owned(),
        _ => json!({"path": path, "input": text}),
    }
    .to_string()
}

/// Cuts a text into pieces of `size` characters.
pub(super) fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    #[serde(default)]
    settings: Map<String, Value>,
    agent: Option<String>,
    #[serde(flatten)]
    message: Option<CaseMessage>,
    #[serde(default)]
    turns: Vec<CaseMessage>,
}

#[derive(Debug, Deserialize)]
struct CaseMessage {
    source: StreamKind,
    tool: Option<String>,
    deltas: Vec<String>,
}

/// The delta at which each rule first fires.
type First = BTreeMap<String, usize>;

fn run_cases(environment: &Environment, set: &RuleSet, path: &Path) -> Result<()> {
    let text = read_text(environment, path)?;
    let cases: Vec<Case> = serde_json::from_str(&text).map_err(|error| {
        UserError::usage(format!("{}: {error}", path.display()))
            .help("write a list of {\"id\", \"source\": \"text\", \"deltas\": [..]}")
    })?;
    for case in &cases {
        let mut engine = engine_of(set, case)?;
        let row = match &case.message {
            Some(message) => json!({"id": case.id, "first": first(&mut engine, message, false)}),
            None => {
                let turns: Vec<Value> =
                    case.turns.iter().map(|message| json!({"first": first(&mut engine, message, true)})).collect();
                json!({"id": case.id, "turns": turns})
            }
        };
        stdout(&row.to_string());
    }
    Ok(())
}

fn engine_of(set: &RuleSet, case: &Case) -> Result<RuleEngine> {
    let mut members = case.settings.clone();
    members.entry("enabled").or_insert(true.into());
    members.entry("interruptMode").or_insert("always".into());
    let settings: RuleSettings = serde_json::from_value(members.into())
        .map_err(|error| UserError::usage(format!("the settings of case {:?} cannot be read: {error}", case.id)))?;
    let mut settings = RuleSettings { max_retries_per_turn: u32::MAX, max_retries_per_session: u32::MAX, ..settings };
    if case.message.is_some() {
        settings = RuleSettings {
            interrupt_mode: InterruptMode::Always,
            repeat_mode: RepeatMode::AfterGap,
            repeat_gap: 0,
            ..settings
        };
    }
    let agent = case.agent.clone().unwrap_or_else(|| MAIN_AGENT.to_owned());
    let options = EngineOptions { agent, cwd: "/proj".to_owned(), ..EngineOptions::default() };
    Ok(RuleEngine::new(set.rules(), settings, options))
}

/// Reads a message, to its end or to the first interrupt.
fn first(engine: &mut RuleEngine, message: &CaseMessage, stops: bool) -> First {
    let context = match message.source {
        StreamKind::Text => MatchContext::text(0),
        StreamKind::Thinking => MatchContext::thinking(0),
        StreamKind::Tool => MatchContext::tool(message.tool.as_deref().unwrap_or_default(), "call", 0),
    };
    let mut first = First::new();
    let mut note = |at: usize, firing: &Firing| {
        for rule in &firing.rules {
            first.entry(rule.name.as_str().to_owned()).or_insert(at);
        }
        stops && firing.interrupts()
    };
    engine.begin_turn();
    engine.reset_buffers();
    let deltas = message.deltas.iter().enumerate();
    let is_stopped = deltas
        .filter_map(|(at, delta)| Some((at, engine.check_delta(delta, &context)?)))
        .any(|(at, firing)| note(at, &firing));
    if !is_stopped {
        let end = engine.end_of_call(&context).into_iter().chain(engine.end_of_message(0));
        let firings: Vec<Firing> = end.collect();
        for firing in &firings {
            note(message.deltas.len(), firing);
        }
    }
    engine.end_turn();
    first
}
