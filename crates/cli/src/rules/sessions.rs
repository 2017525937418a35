//! `pi rules scan`, `explain` and `stats`: rules over session files.
//!
//! A session file is read line by line: the replies of the model, and the messages that firings of rules put into the
//! conversation. `scan` and `explain` run the current rules over the replies; `stats` counts past firings.

use super::list::{self, shown};
use super::try_out::pieces;
use super::{FromArgs, given_up, take_reports};
use crate::output::{stderr, stdout};
use clap::Args;
use pijs_agent::{FIRED_TYPE, VERDICT_TYPE, records_of};
use pijs_protocol::StreamSource;
use pijs_protocol::wire::Task;
use pijs_rules::diagnostic::printable;
use pijs_rules::engine::{Blocked, Outcome, PatternIndex, TraceEntry};
use pijs_rules::{
    Activity, Diagnostic, FiredRule, Firing, InjectedRecord, MatchContext, RetryLedger, Rule, RuleEngine, StreamKind,
};
use pijs_runtime::Environment;
use pijs_runtime::meant_path;
use pijs_runtime::open_session;
use pijs_runtime::tape;
use pijs_runtime::{Result, UserError};
use pijs_tape::{Event, RealmNumber};
use pijs_terminal::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// Number of characters of a delta: about a token of a model.
const DELTA: usize = 4;
/// Estimated bytes of text per token, if the provider did not report a count.
const TOKEN: usize = 4;
/// Maximum number of matches that `explain` keeps of a session.
const MAX_TRACE: usize = 1_000;

/// `pi rules scan`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// Session files, or folders of them, and tapes (*.tape); without one, the sessions of this folder
    sessions: Vec<PathBuf>,
    /// Only this rule; repeatable
    #[arg(short, long = "rule", value_name = "NAME")]
    only: Vec<String>,
    /// Exit with 1 when a rule fires
    #[arg(long)]
    fail: bool,
    #[command(flatten)]
    from: FromArgs,
}

/// `pi rules explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The rule's name
    name: String,
    /// A session file; without one, the latest session of this folder
    session: Option<PathBuf>,
    #[command(flatten)]
    from: FromArgs,
}

/// `pi rules stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Session files, or folders of them; without one, the sessions of this folder
    sessions: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A piece of a reply that rules read.
struct Part {
    stream: StreamKind,
    tool: String,
    call: String,
    text: String,
}

impl Part {
    fn context(&self, now_ms: u64) -> MatchContext<'_> {
        match self.stream {
            StreamKind::Text => MatchContext::text(now_ms),
            StreamKind::Thinking => MatchContext::thinking(now_ms),
            StreamKind::Tool => MatchContext::tool(&self.tool, &self.call, now_ms),
        }
    }
}

/// A reply of the model.
struct Reply {
    parts: Vec<Part>,
    /// Start time in milliseconds since 1970.
    at_ms: u64,
}

/// A relevant line of a session.
enum Line {
    Reply(Reply),
    /// A firing: the message that an interrupt has injected into the conversation, or the entry of a reminder.
    Fired {
        rules: Vec<FiredRule>,
        records: Vec<InjectedRecord>,
        is_reminder: bool,
        tokens_burned: u64,
    },
}

/// Prints a line, sanitised, because its names and texts come from files.
fn say(line: &str) {
    stdout(&printable(line));
}

/// Runs `pi rules scan`.
pub(crate) fn scan(environment: &Environment, args: &ScanArgs) -> Result<()> {
    let set = args.from.read(environment)?;
    for name in &args.only {
        list::find(&set, name)?;
    }
    let files = session_files(environment, &args.sessions)?;
    let mut found = ScanFindings::default();
    for file in &files {
        found.read(file, &mut set.engine(0), &args.only)?;
    }
    for (report, files) in &found.reports {
        let more = match files.len() - 1 {
            0 => String::new(),
            more => format!(" (and in {} more)", counted(more, "session")),
        };
        stderr(&printable(&format!("warning: {}{more}: {report}", shown(environment, &files[0]))));
    }
    match args.from.json {
        true => stdout(&found.to_json(files.len()).to_string()),
        false => found.print(environment, files.len()),
    }
    match (found.hits.len(), found.reports.len()) {
        (count @ 1.., _) if args.fail => Err(UserError::failed(counted(count, "match"))),
        (_, count @ 1..) if args.fail => Err(given_up(count)),
        _ => Ok(()),
    }
}

/// A match of a rule in a reply of a session.
struct ScanHit {
    file: PathBuf,
    /// Number of the reply in the session.
    reply: usize,
    firing: Firing,
    rule: FiredRule,
    /// Number of tokens of the reply before the match.
    tokens_before: usize,
    tokens: usize,
}

/// The findings of `pi rules scan`.
#[derive(Default)]
struct ScanFindings {
    hits: Vec<ScanHit>,
    /// Reports on conditions that do not run, with the sessions in which they occurred.
    reports: BTreeMap<String, Vec<PathBuf>>,
    replies: usize,
    burned: usize,
    saved: usize,
}

impl ScanFindings {
    /// Runs the rules over a session; only those named in `only`, unless it is empty.
    fn read(&mut self, file: &Path, engine: &mut RuleEngine, only: &[String]) -> Result<()> {
        let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
        let mut number = 0usize;
        for line in read(file)? {
            let Line::Reply(reply) = line else { continue };
            number += 1;
            let total: usize = reply.parts.iter().map(|part| part.text.len()).sum();
            for (before, firing) in over(engine, &reply) {
                for rule in firing.rules.iter().filter(|rule| wanted(rule.name.as_str())) {
                    if rule.interrupts {
                        self.burned += before / TOKEN;
                        self.saved += (total - before) / TOKEN;
                    }
                    self.hits.push(ScanHit {
                        file: file.to_owned(),
                        reply: number,
                        firing: firing.clone(),
                        rule: rule.clone(),
                        tokens_before: before / TOKEN,
                        tokens: total / TOKEN,
                    });
                }
            }
        }
        self.replies += number;
        for report in take_reports(engine, wanted) {
            self.reports.entry(report).or_default().push(file.to_owned());
        }
        Ok(())
    }

    fn to_json(&self, sessions: usize) -> Value {
        let hit = |hit: &ScanHit| {
            let ScanHit { file, reply, firing, rule, tokens_before, tokens } = hit;
            json!({
                "session": file, "reply": reply, "rule": rule.name, "interrupts": rule.interrupts,
                "stream": firing.stream, "tool": firing.tool, "site": rule.site, "tokensBefore": tokens_before,
                "tokens": tokens,
            })
        };
        let hits: Vec<Value> = self.hits.iter().map(hit).collect();
        let summary = json!({"sessions": sessions, "replies": self.replies, "hits": hits.len(),
            "tokensBurned": self.burned, "tokensSaved": self.saved});
        let reports: Vec<Value> =
            self.reports.iter().map(|(report, files)| json!({"message": report, "sessions": files})).collect();
        json!({"hits": hits, "reports": reports, "summary": summary})
    }

    fn print(&self, environment: &Environment, sessions: usize) {
        for ScanHit { file, reply, firing, rule, tokens_before, tokens } in &self.hits {
            let action = if rule.interrupts { "would stop it" } else { "would remind" };
            let stream = firing
                .tool
                .as_ref()
                .map_or_else(|| stream_name(firing.stream).to_owned(), |tool| format!("tool {tool}"));
            say(&format!(
                "{}: reply {reply}, {stream}, line {}: {} {action} after {tokens_before} of {tokens} tokens",
                shown(environment, file),
                rule.site.line,
                rule.name,
            ));
            say(&format!("  {}", printable(rule.site.excerpt.trim_end())));
        }
        let Self { burned, saved, .. } = self;
        say(&format!(
            "{} in {}: {}; stopping would have thrown away about {} and saved {saved}",
            counted(self.replies, "reply"),
            counted(sessions, "session"),
            counted(self.hits.len(), "match"),
            counted(*burned, "token"),
        ));
    }
}

/// Runs `pi rules explain`.
pub(crate) fn explain(environment: &Environment, args: &ExplainArgs) -> Result<()> {
    let set = args.from.read(environment)?;
    let (rule, activity) = list::find(&set, &args.name)?;
    let errors = list::errors_of(&set, &rule);
    let file = match &args.session {
        Some(session) => environment.dirs.cwd.join(session),
        None => match session_files(environment, &[])?.pop() {
            Some(file) => file,
            None => return Err(unexplained(&rule, &activity, &errors)),
        },
    };
    let lines = read(&file)?;
    let mut engine = set.engine(MAX_TRACE);
    let Explained { replies, recorded, matches: trace } = explained(&mut engine, &rule, &lines);
    let reports = take_reports(&mut engine, |name| name == rule.name.as_str());
    reports.iter().for_each(|report| stderr(&format!("warning: {report}")));
    if args.from.json {
        let recorded: Vec<Value> = recorded
            .iter()
            .map(|(reply, fired, is_reminder)| json!({"beforeReply": reply + 1, "fired": fired, "reminder": is_reminder}))
            .collect();
        let row = json!({"rule": rule.name, "activity": activity, "session": file, "replies": replies,
            "recorded": recorded, "matches": trace, "reports": reports});
        stdout(&row.to_string());
        return Ok(());
    }
    let kept = counted(replies, "kept reply");
    say(&format!("{} in {} ({kept})", rule.name, shown(environment, &file)));
    if let Some(reason) = &activity.reason {
        say(&format!("The rule does not read replies: {reason}."));
    }
    for error in &errors {
        say(&format!("Its file has an error: {}.", error.brief()));
    }
    // A rule that fired proves that the session ran with rules, whatever the settings are now.
    let ran_with_rules = lines.iter().any(|line| matches!(line, Line::Fired { .. }));
    if !set.is_on && !ran_with_rules {
        say(
            "Rules are off in this folder, except in a run with `pi --rules`. To turn them on: \"ttsr\": {\"enabled\": true} in settings.json.",
        );
    }
    if let Some(folder) = &set.untrusted {
        say(&format!("The rules of {} take effect once you trust the project: pi trust.", shown(environment, folder)));
    }
    say(&match recorded.len() {
        0 => "The rule did not fire in the session.".to_owned(),
        1 => "The rule fired once in the session:".to_owned(),
        count => format!("The rule fired {count} times in the session:"),
    });
    for (reply, fired, is_reminder) in &recorded {
        let action = if *is_reminder { "reminded" } else { "stopped the reply" };
        let why = fired.degraded.map_or_else(String::new, |reason| format!(", because {reason}"));
        let (line, excerpt) = (fired.site.line, printable(fired.site.excerpt.trim()));
        say(&format!("  before reply {}: {action}{why}; line {line}: {excerpt}", reply + 1));
    }
    if trace.is_empty() {
        let hint = match reports.is_empty() {
            true => hint(&rule),
            false => "A condition was not tested on all of it; see the warning.".to_owned(),
        };
        say(&format!("Nothing in the stored replies matches; a session does not store stopped ones. {hint}"));
        return Ok(());
    }
    say("Matches of its conditions in the stored replies:");
    for entry in &trace {
        stdout(&format!("  {}", describe(entry)));
    }
    Ok(())
}

/// Returns the error about a rule that no session explains: the mistake in its file, the reason why it does not read replies, or
/// that there is no session.
fn unexplained(rule: &Rule, activity: &Activity, errors: &[Diagnostic]) -> UserError {
    match (errors.first(), &activity.reason) {
        (Some(error), _) => {
            UserError::failed(format!("the file of the rule {} has an error: {}", rule.name, error.brief()))
                .help("pi rules lint shows the line")
        }
        (None, Some(reason)) => UserError::failed(format!("the rule {} does not read replies: {reason}", rule.name))
            .help(format!("pi rules show {} prints it", rule.name)),
        (None, None) => UserError::failed("there is no session of this folder")
            .help("name a session file: pi rules explain RULE FILE"),
    }
}

/// The firings of a rule in a session.
struct Explained<'a> {
    replies: usize,
    /// Firings of the rule in the session, each with the number of replies before it, and whether it was only a reminder.
    recorded: Vec<(usize, &'a FiredRule, bool)>,
    /// Decisions about the rule's matches when it is run over the session again.
    matches: Vec<TraceEntry>,
}

/// Runs a rule over a session again. Recorded firings count as firings, regardless of the content of the stored replies.
fn explained<'a>(engine: &mut RuleEngine, rule: &Rule, lines: &'a [Line]) -> Explained<'a> {
    let mut explained = Explained { replies: 0, recorded: Vec::new(), matches: Vec::new() };
    // Reminders that belong to the next reply.
    let mut reminders: Vec<(&[FiredRule], &[InjectedRecord])> = Vec::new();
    let restore = |engine: &mut RuleEngine, records: &[InjectedRecord], turn: u64| {
        // The session has different turn numbers, so the current one is used.
        engine.restore(records.iter().map(|record| InjectedRecord { turn, ..record.clone() }));
    };
    for line in lines {
        match line {
            Line::Reply(reply) => {
                explained.replies += 1;
                let turn = engine.current_turn();
                over(engine, reply).for_each(drop);
                let mine = engine.trace().filter(|entry| entry.turn == turn && entry.rule == rule.name);
                let mut matches: Vec<TraceEntry> = mine.cloned().collect();
                for (rules, records) in reminders.drain(..) {
                    let fired = rules.iter().find(|fired| fired.name == rule.name);
                    let found = matches.iter_mut().find(|entry| matches!(entry.outcome, Outcome::Fired { .. }));
                    if let (Some(fired), Some(found)) = (fired, found) {
                        found.outcome = Outcome::Fired { interrupts: false, degraded: fired.degraded };
                    }
                    restore(engine, records, turn);
                }
                explained.matches.extend(matches);
                explained.matches.truncate(MAX_TRACE);
            }
            Line::Fired { rules, records, is_reminder, .. } => {
                let mine = rules.iter().filter(|fired| fired.name == rule.name);
                explained.recorded.extend(mine.map(|fired| (explained.replies, fired, *is_reminder)));
                if *is_reminder {
                    reminders.push((rules, records));
                } else {
                    let turn = engine.current_turn();
                    restore(engine, records, turn);
                }
            }
        }
    }
    explained
}

/// Runs `pi rules stats`.
pub(crate) fn stats(environment: &Environment, args: &StatsArgs) -> Result<()> {
    let files = session_files(environment, &args.sessions)?;
    let mut ledger = RetryLedger::default();
    let mut replies = 0;
    for file in &files {
        for line in read(file)? {
            match line {
                Line::Reply(_) => replies += 1,
                Line::Fired { rules, is_reminder, tokens_burned, .. } => {
                    ledger.add(&RetryLedger::of_firing(&rules, !is_reminder, tokens_burned));
                }
            }
        }
    }
    if args.json {
        stdout(&json!({"sessions": files.len(), "replies": replies, "ledger": ledger}).to_string());
        return Ok(());
    }
    let width = ledger.rules.keys().map(|name| name.as_str().chars().count()).max().unwrap_or(0).max(4);
    if !ledger.rules.is_empty() {
        say(&format!("{:<width$}  {:>7}  {:>7}  {:>8}  {:>6}", "rule", "firings", "stopped", "reminded", "tokens"));
    }
    for (name, counts) in &ledger.rules {
        say(&format!(
            "{:<width$}  {:>7}  {:>7}  {:>8}  {:>6}",
            name.as_str(),
            counts.firings,
            counts.interrupts,
            counts.reminders,
            counts.tokens_burned,
        ));
        for (reason, times) in &counts.degraded {
            say(&format!("{:<width$}  {} it only reminded: {reason}", "", counted(*times, "time")));
        }
    }
    if ledger.rules.values().map(|counts| counts.tokens_burned).sum::<u64>() > ledger.tokens_burned {
        say("(the tokens of a reply that several rules stopped are counted for each of them)");
    }
    say(&format!(
        "{}, {}: {} stopped, {}, {} thrown away",
        counted(files.len(), "session"),
        counted(replies, "reply"),
        ledger.interrupts,
        counted(ledger.reminders as usize, "reminder"),
        counted(ledger.tokens_burned as usize, "token"),
    ));
    Ok(())
}

/// Runs the rules over a reply as a separate turn. Returns each firing with the number of bytes that were read before it.
fn over<'a>(engine: &'a mut RuleEngine, reply: &'a Reply) -> impl Iterator<Item = (usize, Firing)> + 'a {
    engine.begin_turn();
    engine.reset_buffers();
    let mut firings = Vec::new();
    let mut before = 0;
    for part in &reply.parts {
        let context = part.context(reply.at_ms);
        for delta in pieces(&part.text, DELTA) {
            firings.extend(engine.check_delta(delta, &context).map(|firing| (before, firing)));
            before += delta.len();
        }
        if part.stream == StreamKind::Tool {
            firings.extend(engine.end_of_call(&context).map(|firing| (before, firing)));
        }
    }
    firings.extend(engine.end_of_message(reply.at_ms).into_iter().map(|firing| (before, firing)));
    engine.end_turn();
    firings.into_iter()
}

fn describe(entry: &TraceEntry) -> String {
    let stream =
        entry.tool.as_ref().map_or_else(|| stream_name(entry.stream).to_owned(), |tool| format!("tool {tool}"));
    let condition = match entry.site.pattern {
        PatternIndex::Regex(index) => format!("condition {}", index + 1),
        PatternIndex::Ast(index) => format!("astCondition {}", index + 1),
    };
    let outcome = outcome(&entry.outcome);
    let (line, excerpt) = (entry.site.line, printable(entry.site.excerpt.trim()));
    let stream = printable(&stream);
    format!("reply {}, {stream}, line {line}: {excerpt}\n    {condition} {outcome}", entry.turn + 1)
}

/// Describes the outcome of a match, as the end of a sentence about it.
pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Fired { interrupts: true, .. } => "fires, and stops the reply".to_owned(),
        Outcome::Fired { degraded: Some(reason), .. } => format!("fires, and only reminds: {reason}"),
        Outcome::Fired { .. } => "fires, and reminds".to_owned(),
        Outcome::OutOfScope => "has no effect: its scope does not include this stream".to_owned(),
        Outcome::PathUnknown => "has no effect: the call has no path".to_owned(),
        Outcome::PathMismatch { paths } => printable(&format!("has no effect: no glob matches {}", paths.join(", "))),
        Outcome::Repeat(blocked) => format!("has no effect: {}", why_blocked(blocked)),
        Outcome::AlreadyFired => "has no effect a second time in the same reply".to_owned(),
        Outcome::Unsettled => "has no effect: what followed changed the word or line".to_owned(),
    }
}

fn why_blocked(blocked: &Blocked) -> String {
    match blocked {
        Blocked::Once { turn } => format!("it fires once in a session, and fired at reply {}", turn + 1),
        Blocked::Gap { turns_left } => format!("it may fire again after {}", counted(*turns_left, "more turn")),
        Blocked::Cooldown { ms_left } => {
            format!("it may fire again after {}", counted(ms_left.div_ceil(1000), "more second"))
        }
        Blocked::MaxFirings { limit } => format!("it fired {}, its limit for a session", counted(*limit, "time")),
    }
}

/// Describes the scope of a rule that has no matches.
fn hint(rule: &Rule) -> String {
    match rule.conditions.first() {
        Some(_) => format!("To test the rule on other text: pi rules test - --rule {}", rule.name),
        None => "The rule has no condition.".to_owned(),
    }
}

fn stream_name(stream: StreamKind) -> &'static str {
    match stream {
        StreamKind::Text => "text",
        StreamKind::Thinking => "thinking",
        StreamKind::Tool => "tool",
    }
}

/// Lists session files, oldest first.
fn session_files(environment: &Environment, given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let places = match given {
        [] => vec![open_session::folder(environment, None)],
        given => given.iter().map(|path| environment.dirs.cwd.join(path)).collect(),
    };
    for place in places {
        if place.is_file() {
            files.push(place);
            continue;
        }
        match std::fs::read_dir(&place) {
            Ok(entries) => {
                // Opening a pipe with such a name would block.
                let is_session =
                    |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file();
                let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_session).collect();
                found.sort();
                files.extend(found);
            }
            Err(error) if pijs_runtime::is_missing(&error) && given.is_empty() => {}
            Err(error) => {
                return Err(UserError::failed(format!("{} cannot be read: {error}", place.display()))
                    .help("give a session file (*.jsonl), a folder of them, or a tape (*.tape)"));
            }
        }
    }
    Ok(files)
}

/// Reads a session, or the tape of one. Invalid lines are skipped, and counted in a warning.
fn read(file: &Path) -> Result<Vec<Line>> {
    if file.extension().is_some_and(|extension| extension == "tape") {
        return read_tape(file);
    }
    let failed = |error: std::io::Error| {
        let is_missing = pijs_runtime::is_missing(&error);
        let meant = if is_missing { meant_path(Path::new(""), file) } else { String::new() };
        UserError::failed(format!("{} cannot be read: {error}", file.display()))
            .help(format!("{meant}give a session file (*.jsonl), or a tape (*.tape)"))
    };
    let mut lines = Vec::new();
    let mut bad = 0;
    for line in BufReader::new(File::open(file).map_err(failed)?).split(b'\n') {
        match serde_json::from_slice::<Value>(line.map_err(failed)?.trim_ascii()) {
            Ok(entry) => lines.extend(line_of(&entry)),
            Err(_) => bad += 1,
        }
    }
    if bad > 0 {
        let lines = counted(bad, "line");
        stderr(&printable(&format!("warning: {}: {lines} skipped: not JSON", file.display())));
    }
    Ok(lines)
}

/// Reads the replies that an extension received while they streamed, including stopped ones. Each realm receives only the streams
/// to which it subscribes; the realm with the most text is used.
fn read_tape(file: &Path) -> Result<Vec<Line>> {
    let mut heard: BTreeMap<RealmNumber, (usize, Vec<(u32, Reply)>)> = BTreeMap::new();
    for record in tape::open(file)? {
        let record = match record {
            Err(error) if error.is_cut() => break,
            record => record.map_err(|error| tape::unreadable(file, &error))?,
        };
        let Event::Delivery(delivery) = record.event else { continue };
        let (at_ms, Task::Stream(delta)) = (delivery.now.epoch_ms, delivery.task) else { continue };
        let (bytes, replies) = heard.entry(record.realm).or_default();
        *bytes += delta.chunk.len();
        if replies.last().is_none_or(|(attempt, _)| *attempt != delta.attempt) {
            replies.push((delta.attempt, Reply { parts: Vec::new(), at_ms }));
        }
        let Some((_, reply)) = replies.last_mut() else { continue };
        let (stream, call) = match delta.source {
            StreamSource::Text => (StreamKind::Text, String::new()),
            StreamSource::Thinking => (StreamKind::Thinking, String::new()),
            StreamSource::Tool => (StreamKind::Tool, delta.stream.to_string()),
        };
        match reply.parts.iter_mut().find(|part| part.stream == stream && part.call == call) {
            Some(part) => part.text.push_str(&delta.chunk),
            None => {
                let tool = delta.tool_name.unwrap_or_default();
                reply.parts.push(Part { stream, tool, call, text: delta.chunk });
            }
        }
    }
    let most = heard.into_values().max_by_key(|(bytes, _)| *bytes);
    Ok(most.into_iter().flat_map(|(_, replies)| replies).map(|(_, reply)| Line::Reply(reply)).collect())
}

fn line_of(entry: &Value) -> Option<Line> {
    match entry["type"].as_str()? {
        "message" if entry["message"]["role"] == "assistant" => {
            let blocks = entry["message"]["content"].as_array()?;
            let at_ms = entry["message"]["timestamp"].as_u64().unwrap_or_default();
            Some(Line::Reply(Reply { parts: blocks.iter().filter_map(part_of).collect(), at_ms }))
        }
        "custom_message" if entry["customType"] == VERDICT_TYPE => {
            let details = &entry["details"];
            let rules: Vec<FiredRule> = serde_json::from_value(details.get("rules")?.clone()).ok()?;
            let is_reminder = details["reminder"].as_bool().unwrap_or_default();
            Some(Line::Fired {
                rules,
                records: records_of(details),
                is_reminder,
                tokens_burned: details["tokensBurned"].as_u64().unwrap_or_default(),
            })
        }
        "custom" if entry["customType"] == FIRED_TYPE => {
            let rules: Vec<FiredRule> = serde_json::from_value(entry["data"].get("rules")?.clone()).ok()?;
            Some(Line::Fired { rules, records: records_of(&entry["data"]), is_reminder: true, tokens_burned: 0 })
        }
        _ => None,
    }
}

fn part_of(block: &Value) -> Option<Part> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let (stream, tool, call, text) = match block["type"].as_str()? {
        "text" => (StreamKind::Text, String::new(), String::new(), text("text")),
        "thinking" => (StreamKind::Thinking, String::new(), String::new(), text("thinking")),
        "toolCall" => (StreamKind::Tool, text("name"), text("id"), block["arguments"].to_string()),
        _ => return None,
    };
    Some(Part { stream, tool, call, text })
}
