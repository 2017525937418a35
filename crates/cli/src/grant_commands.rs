//! `pi ext grants` and `pi ext explain`: grants of extensions, their reasons, and changes to them.

use crate::args::{ExplainArgs, GrantsArgs, GrantsCommand};
use crate::output::{clean, stderr, stdout};
use crate::packages::{find_package, shown_name};
use pijs_environment::SystemTimer;
use pijs_extc::FileAccess;
use pijs_hostcall::decision::Rule;
use pijs_hostcall::gate::Judgement;
use pijs_hostcall::grant_store::{AnswerValidity, By, GrantStore, PackageRecord, StoredAnswer};
use pijs_hostcall::requests::{as_grants, describe, revoke_command};
use pijs_hostcall::vocabulary::CAPABILITIES;
use pijs_hostcall::{Caller, Decision, ExpectedLoss, Gate, Grant, ParsedCall, Profile, Required, Subject};
use pijs_packages::PackageEntry;
use pijs_protocol::manifest::CapabilityRequest;
use pijs_runtime::Environment;
use pijs_runtime::Permissions;
use pijs_runtime::compile::{Compiler, input_of};
use pijs_runtime::grant_file::GrantFile;
use pijs_runtime::grants::{ExtensionGrants, UserDecisions, parse_grant};
use pijs_runtime::package_request::{PackageRequest, grant_key};
use pijs_runtime::{Result, UserError};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `pi ext grants ...`
pub(crate) fn grants(environment: &Environment, args: &GrantsArgs) -> Result<()> {
    let file = GrantFile::new(environment, Arc::new(SystemTimer::new()));
    match &args.command {
        None => list(environment, &file, args.extension.as_deref(), args.json),
        Some(GrantsCommand::Revoke { extension, answers }) => revoke(environment, &file, extension, answers),
        Some(GrantsCommand::Allow { extension, grants }) => answer(environment, &file, extension, grants, true),
        Some(GrantsCommand::Deny { extension, grants }) => answer(environment, &file, extension, grants, false),
    }
}

fn list(environment: &Environment, file: &GrantFile, which: Option<&str>, as_json: bool) -> Result<()> {
    let mut book = file.read()?;
    match which {
        Some(which) => {
            let key = key_of(environment, &book, which).ok_or_else(|| {
                UserError::failed(format!("{}: no answers are recorded for it", clean(which))).help(HOW)
            })?;
            book.packages.retain(|known, _| *known == key);
        }
        // A record stays after its last answer was taken back.
        None => book.packages.retain(|_, record| !record.answers.is_empty()),
    }
    if as_json {
        stdout(&serde_json::to_string(&book).map_err(|error| UserError::failed(error.to_string()))?);
        return Ok(());
    }
    if book.packages.is_empty() {
        stderr("no grants; pi asks when it installs an extension, and when a running extension needs more");
    }
    let names = names_of_paths(environment);
    for (id, record) in &book.packages {
        let name = names.get(id).map(|name| format!("{name} ({id})"));
        stdout(&clean(name.as_ref().unwrap_or(id)));
        if record.answers.is_empty() {
            stdout("  nothing");
        }
        for answer in &record.answers {
            let request = request_of(answer);
            let said = if answer.allowed {
                format!("may {}", describe(&request))
            } else {
                format!("never {}", describe_denied(&request))
            };
            stdout(&clean(&format!("  {said}  ({}, {})", answer.by.words(), answer.at)));
        }
    }
    Ok(())
}

/// Returns the names of the packages in folders that would be loaded here, by the key of their grants.
fn names_of_paths(environment: &Environment) -> BTreeMap<String, String> {
    let found = crate::packages::loadable(environment);
    let named = found.into_iter().filter_map(|package| Some((package.id.as_str().to_owned(), package.name?)));
    named.filter(|(id, _)| id.starts_with("path:")).collect()
}

const HOW: &str = "pi ext grants lists what is recorded, pi ext list what would be loaded";

fn request_of(answer: &StoredAnswer) -> CapabilityRequest {
    CapabilityRequest {
        capability: answer.capability.clone(),
        methods: answer.methods.clone(),
        scope: answer.scope.clone(),
    }
}

fn revoke(environment: &Environment, file: &GrantFile, which: &str, answers: &[String]) -> Result<()> {
    for answer in answers {
        parse_grant(answer)?;
    }
    let key = key_of(environment, &file.read()?, which)
        .ok_or_else(|| UserError::failed(format!("{}: no answers are recorded for it", clean(which))).help(HOW))?;
    let revoked: Vec<(Option<&str>, usize)> = file.change(|book| {
        let Some(record) = book.packages.get_mut(&key) else { return Vec::new() };
        let which: Vec<Option<&str>> = match answers {
            [] => vec![None],
            answers => answers.iter().map(|answer| Some(answer.as_str())).collect(),
        };
        which.into_iter().map(|which| (which, record.revoke(which))).collect()
    })?;
    let count: usize = revoked.iter().map(|(_, count)| count).sum();
    let nothing: Vec<&str> = revoked.iter().filter(|(_, count)| *count == 0).filter_map(|(which, _)| *which).collect();
    if count > 0 || nothing.is_empty() {
        let answers = if count == 1 { "answer" } else { "answers" };
        stderr(&format!("{}: {count} {answers} taken back; running sessions notice at /reload", clean(&key)));
    }
    if nothing.is_empty() {
        return Ok(());
    }
    Err(UserError::failed(format!("{}: no answer about {}", clean(&key), clean(&nothing.join(", ")))).help(format!(
        "its answers: pi ext grants {0}; to forbid it: pi ext grants deny {0} {1}",
        clean(&key),
        clean(nothing[0])
    )))
}

fn answer(environment: &Environment, file: &GrantFile, which: &str, texts: &[String], allowed: bool) -> Result<()> {
    let grants = texts.iter().map(|text| parse_grant(text)).collect::<Result<Vec<_>>>()?;
    grants.iter().try_for_each(without_quotes)?;
    if let Some((key, empty)) = pijs_runtime::mcp::record_of(environment, which)? {
        return answer_about_server(file, which, (key, empty), (grants, allowed));
    }
    if which.starts_with("rummy:") {
        return answer_about_plugin(environment, file, which, (grants, allowed));
    }
    let (found, applicant) = applicant(environment, which, &UserDecisions::of_settings(environment)?)?;
    // Otherwise an invalid pattern would be detected only when the extension is loaded.
    gate(environment, &UserDecisions::of_settings(environment)?)
        .set_grants(&Profile::new("check").at(&found.root), &grants, Default::default())
        .map_err(|error| UserError::usage(error.to_string()))?;
    let at = file.now();
    let present = applicant.present();
    let dropped = file.change(|book| {
        let record = book.packages.entry(applicant.key.clone()).or_insert_with(|| PackageRecord::new(present));
        let dropped = if record.standing(present) == AnswerValidity::Holds || applicant.present().local {
            0
        } else {
            // The answers were about other code, so the user decides anew about the present code.
            record.revoke(None)
        };
        record.bind(present);
        for grant in &grants {
            let (capability, methods, scope) = (grant.capability.clone(), grant.methods.clone(), grant.scope.clone());
            record.answer(StoredAnswer { capability, methods, scope, allowed, by: By::Command, at: at.clone() });
        }
        dropped
    })?;
    if dropped > 0 {
        let plural = if dropped == 1 { "" } else { "s" };
        stderr(&format!("note: removed {dropped} earlier answer{plural}, given for another version of the code"));
    }
    for Grant { capability, methods, scope, .. } in grants {
        let request = CapabilityRequest { capability, methods, scope };
        stderr(&clean(&format!("{} {}", shown_name(&found), verdict(&request, allowed))));
    }
    Ok(())
}

/// Describes a recorded grant or denial.
fn verdict(request: &CapabilityRequest, allowed: bool) -> String {
    if allowed { format!("may now {}", describe(request)) } else { format!("may never {}", describe_denied(request)) }
}

/// Refuses the pattern of a program with a quoted argument, which would not match any call, because blanks separate the words of
/// a pattern.
fn without_quotes(grant: &Grant) -> Result<()> {
    let commands = grant.scope.iter().filter_map(|scope| scope.commands.as_ref()).flatten();
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let is_quoted = |word: &&str| word.starts_with(['"', '\'']) && *word != "\"\"";
        let Some(at) = words.iter().position(is_quoted) else { continue };
        let words = if at == 0 { "PROGRAM".to_owned() } else { words[..at].join(" ") };
        let problem = "no call matches it: a pattern has no quotes, and blanks separate its words";
        return Err(UserError::usage(format!("{:?}: {problem}", clean(&grant.id)))
            .help(format!("write 'exec:{} *', for any arguments that follow", clean(&words))));
    }
    Ok(())
}

/// Records answers about a plugin of rummy that has a record: its code is known only after it has run.
fn answer_about_plugin(
    environment: &Environment,
    file: &GrantFile,
    which: &str,
    (grants, allowed): (Vec<Grant>, bool),
) -> Result<()> {
    let Some(key) = key_of(environment, &file.read()?, which) else {
        return Err(UserError::failed(format!("{}: nothing is recorded about it", clean(which)))
            .help("run it first: pi rummy run asks for its permissions"));
    };
    let at = file.now();
    file.change(|book| {
        let Some(record) = book.packages.get_mut(&key) else { return };
        for Grant { capability, methods, scope, .. } in grants.clone() {
            record.answer(StoredAnswer { capability, methods, scope, allowed, by: By::Command, at: at.clone() });
        }
    })?;
    for Grant { capability, methods, scope, .. } in grants {
        let request = CapabilityRequest { capability, methods, scope };
        stderr(&clean(&format!("{which} {}", verdict(&request, allowed))));
    }
    Ok(())
}

/// Records answers about an MCP server, bound to its present program or address.
fn answer_about_server(
    file: &GrantFile,
    which: &str,
    (key, empty): (String, PackageRecord),
    (grants, allowed): (Vec<Grant>, bool),
) -> Result<()> {
    let at = file.now();
    file.change(|book| {
        let record = book.packages.entry(key).or_insert_with(|| empty.clone());
        if record.code != empty.code {
            *record = empty;
        }
        for Grant { capability, methods, scope, .. } in grants.clone() {
            record.answer(StoredAnswer { capability, methods, scope, allowed, by: By::Command, at: at.clone() });
        }
    })?;
    for Grant { capability, methods, scope, .. } in grants {
        let request = CapabilityRequest { capability, methods, scope };
        stderr(&clean(&format!("{which} {}", verdict(&request, allowed))));
    }
    Ok(())
}

/// Returns the key of the extension that a user names: by a recorded source, by its name, or by discovery.
fn key_of(environment: &Environment, book: &GrantStore, which: &str) -> Option<String> {
    let found = find_package(environment, which).ok();
    let loaded = found.map(|found| grant_key(&environment.dirs, found.id.as_str(), found.installed));
    let mut named: Vec<String> = loaded.into_iter().chain([which.to_owned(), format!("npm:{which}")]).collect();
    if let Ok(path) = environment.dirs.cwd.join(which).canonicalize() {
        named.push(format!("path:{}", path.display()));
    }
    named.into_iter().find(|key| book.packages.contains_key(key))
}

fn applicant(
    environment: &Environment,
    which: &str,
    decided: &UserDecisions,
) -> Result<(PackageEntry, PackageRequest)> {
    let found = find_package(environment, which)?;
    // The build may read files that need a grant, because nothing is loaded here. Protected files stay protected.
    let access = FileAccess::new(environment.places()).readable(|_| true);
    let compiler = Compiler::new(environment).with_access(access);
    let output = compiler.build(found.id.as_str(), &input_of(found.id.as_str(), &found.root, &found.entries))?;
    let who = (found.id.as_str(), found.installed);
    let package = (found.root.as_path(), &found.manifest);
    let applicant = PackageRequest::new(environment, who, package, &output.metadata(), decided.policy.mode)?;
    Ok((found, applicant))
}

fn gate(environment: &Environment, decided: &UserDecisions) -> Gate {
    Gate::builder(decided.policy.clone(), environment.places()).build()
}

/// `pi ext explain EXT [WHAT]`: prints the gate's decision and the rule behind it.
pub(crate) fn explain(environment: &Environment, args: &ExplainArgs) -> Result<()> {
    let permissions = Permissions {
        mode: args.policy.map(Into::into),
        allow: args.allow.clone(),
        deny: args.deny.clone(),
        accept_unsealed: false,
    };
    let decided = UserDecisions::new(environment, &permissions, None)?;
    let (found, applicant) = applicant(environment, &args.extension, &decided)?;
    let file = GrantFile::new(environment, Arc::new(SystemTimer::new()));
    let book = file.read()?;
    let record = book.packages.get(&applicant.key);
    let mut held = decided.held(&applicant, found.origin, record);
    let gate = gate(environment, &decided);
    let profile = match found.loose_file() {
        Some(file) => Profile::new(found.id.as_str()).loose(file, &found.root, None),
        None => Profile::new(found.id.as_str()).at(&found.root),
    };
    let (readable, notes) = decided.readable(&gate, &profile, held.grants);
    notes.iter().for_each(|note| stderr(&clean(&format!("warning: {note}"))));
    held.grants = readable;
    gate.set_grants(&profile, &held.grants, applicant.evidence.clone())
        .map_err(|error| UserError::failed(error.to_string()))?;
    gate.set_never(&profile, &held.never);
    let caller = Caller::new(Arc::new(profile));

    let decisions = decisions(&gate, &caller, (&applicant, &held.grants), &args.what)?;
    let loss = applicant.evidence.expected_loss();
    let explanation = Explanation { found: &found, applicant: &applicant, record, held: &held, decisions, loss };
    match args.json {
        true => stdout(&explanation.to_json(&decided).to_string()),
        false => explanation.print(args.what.is_empty()),
    }
    Ok(())
}

/// The decision about a call or a request, as shown to the user.
struct ExplainedDecision {
    /// Description of the call or the request.
    what: String,
    decision: Decision,
    /// Permanent denials that apply to the call or the request.
    never: Vec<String>,
    /// If grants cover the request only in part, these grants.
    in_part: Vec<String>,
}

/// Decides about the call that the user named, or about each request of the package.
fn decisions(
    gate: &Gate,
    caller: &Caller,
    (applicant, held): (&PackageRequest, &[Grant]),
    what: &[String],
) -> Result<Vec<ExplainedDecision>> {
    if !what.is_empty() {
        let (decision, never) = judge(gate, caller, what)?;
        return Ok(vec![ExplainedDecision { what: what.join(" "), decision, never, in_part: Vec::new() }]);
    }
    let explained = |request: &CapabilityRequest| {
        let (name, _) = CAPABILITIES.iter().find(|(known, _)| *known == request.capability.as_str())?;
        let never = gate.nevers(caller, &Required::new(name, Subject::None));
        let decision = gate.holds(caller, name);
        let in_part = if decision.rule == Rule::Grant { partial_grants(request, held) } else { Vec::new() };
        Some(ExplainedDecision { what: describe(request), decision, never, in_part })
    };
    Ok(applicant.asked.capabilities.iter().filter_map(explained).collect())
}

/// Returns descriptions of the grants for a request's capability, if together they do not cover the whole request. Empty if the
/// request is granted as a whole.
fn partial_grants(request: &CapabilityRequest, held: &[Grant]) -> Vec<String> {
    let of_it: Vec<&Grant> = held.iter().filter(|grant| grant.capability == request.capability).collect();
    let texts = |request: &CapabilityRequest| as_grants(request).into_iter().collect::<BTreeSet<_>>();
    let as_request = |grant: &&Grant| CapabilityRequest {
        capability: grant.capability.clone(),
        methods: grant.methods.clone(),
        scope: grant.scope.clone(),
    };
    let is_for_all = |grant: &&&Grant| grant.methods.is_none() || grant.methods == request.methods;
    let granted: BTreeSet<String> =
        of_it.iter().filter(is_for_all).map(as_request).flat_map(|grant| texts(&grant)).collect();
    let is_whole = granted.contains(request.capability.as_str()) || texts(request).is_subset(&granted);
    if is_whole { Vec::new() } else { of_it.iter().map(as_request).map(|grant| describe(&grant)).collect() }
}

/// Describes a denied request, without the warnings of [`describe`] about granting it.
fn describe_denied(request: &CapabilityRequest) -> String {
    describe(request).replace(" (can run anything)", "")
}

/// The output of `pi ext explain`.
struct Explanation<'a> {
    found: &'a PackageEntry,
    applicant: &'a PackageRequest,
    record: Option<&'a PackageRecord>,
    held: &'a ExtensionGrants,
    decisions: Vec<ExplainedDecision>,
    loss: ExpectedLoss,
}

impl Explanation<'_> {
    fn to_json(&self, decided: &UserDecisions) -> Value {
        let Self { applicant, record, held, decisions, loss, .. } = self;
        let answers: Vec<Value> = decisions.iter().map(decision_json).collect();
        let signals: Vec<Value> = applicant
            .evidence
            .signals()
            .iter()
            .map(|signal| json!({ "signal": signal, "weight": signal.weight(), "words": signal.words() }))
            .collect();
        json!({
            "id": applicant.id, "mode": decided.policy.mode, "record": record, "note": held.note,
            "grants": held.grants, "never": held.never, "decisions": answers, "evidence": signals,
            "expected_loss": loss, "favours": if loss.favours_grant() { "grant" } else { "deny" },
        })
    }

    /// Prints the explanation; `is_whole` if the user did not name a call.
    fn print(&self, is_whole: bool) {
        stdout(&clean(&shown_name(self.found)));
        if let Some(note) = &self.held.note {
            stdout(&format!("  note: {}", clean(note)));
        }
        self.print_decisions();
        // A decision about one scope does not describe the whole request.
        if is_whole {
            for refused in self.held.never.iter().filter(|refused| refused.scope.is_some()) {
                let Grant { id, capability, methods, scope, .. } = refused.clone();
                stdout(&clean(&format!(
                    "  denied   {}",
                    describe_denied(&CapabilityRequest { capability, methods, scope })
                )));
                explain_never(self.record, &self.applicant.id, &[id]);
            }
        }
        self.print_evidence();
    }

    fn print_decisions(&self) {
        let Self { applicant, record, decisions, .. } = self;
        if decisions.is_empty() {
            stdout("  its code needs no permission that requires a prompt");
        }
        for ExplainedDecision { what, decision, never, in_part } in decisions {
            let verdict = match (decision.allowed, in_part.is_empty()) {
                (true, true) => "allowed",
                (true, false) => "in part",
                (false, _) => "denied",
            };
            stdout(&clean(&format!("  {verdict:<8} {what}")));
            in_part.iter().for_each(|granted| stdout(&clean(&format!("           granted: {granted}"))));
            let grant = decision.grant.as_ref().map(|grant| format!(", grant {grant}{}", grant_source(*record, grant)));
            let reason = decision.reason.map(|reason| format!(", reason {}", reason.as_str()));
            stdout(&clean(&format!(
                "           rule {}{}{}",
                decision.rule.as_str(),
                grant.unwrap_or_default(),
                reason.unwrap_or_default()
            )));
            explain_never(*record, &applicant.id, never);
        }
    }

    fn print_evidence(&self) {
        let Self { applicant, loss, .. } = self;
        stdout("  evidence");
        for signal in applicant.evidence.signals() {
            stdout(&format!("           {:<6} {}", signal.weight(), signal.words()));
        }
        if applicant.evidence.signals().is_empty() {
            stdout("           none");
        }
        stdout(&format!(
            "  expected loss  {:.3} if granted, {:.3} if not (p = {:.4}): {}",
            loss.grant,
            loss.deny,
            loss.p,
            if loss.favours_grant() { "granting costs less" } else { "not granting costs less" }
        ));
        stdout("                 for information; the policy and you decide");
    }
}

/// Prints that the user answered *never*, with the time and the command to revoke the answer.
fn explain_never(record: Option<&PackageRecord>, extension: &str, never: &[String]) {
    if never.is_empty() {
        return;
    }
    let is_it = |answer: &&StoredAnswer| {
        let texts = as_grants(&request_of(answer));
        !answer.allowed && texts.iter().any(|text| never.contains(text))
    };
    let given = record.and_then(|record| record.answers.iter().find(is_it));
    let when = given.map(|answer| format!(" ({}, {})", answer.by.words(), answer.at)).unwrap_or_default();
    stdout(&clean(&format!("           your answer: never{when}")));
    stdout(&clean(&format!("           to revoke it: {}", revoke_command(extension, never))));
}

/// Returns the source and the time of a recorded grant.
fn grant_source(record: Option<&PackageRecord>, grant: &str) -> String {
    let index = grant.strip_prefix("grants:").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
    match index.and_then(|index| record?.answers.get(index)) {
        Some(answer) => format!(" ({}, {})", answer.by.words(), answer.at),
        None => String::new(),
    }
}

fn decision_json(ExplainedDecision { what, decision, in_part, .. }: &ExplainedDecision) -> Value {
    json!({
        "what": what, "capability": decision.capability, "allowed": decision.allowed, "rule": decision.rule.as_str(),
        "grant": decision.grant.as_deref(), "reason": decision.reason.map(|reason| reason.as_str()),
        "expected_loss": decision.loss, "in_part": !in_part.is_empty(),
    })
}

/// Decides about a call on the command line: `exec git status`, `read /etc/hosts`, `http https://example.com/`, `env NAME`, or a
/// capability alone.
fn judge(gate: &Gate, caller: &Caller, what: &[String]) -> Result<(Decision, Vec<String>)> {
    let (capability, rest) = what.split_first().map(|(first, rest)| (first.as_str(), rest)).unwrap_or_default();
    let first = rest.first().map(String::as_str);
    let params = match (capability, first) {
        ("read", Some(path)) => ("fs", json!({ "op": "readFile", "path": path })),
        ("write", Some(path)) => ("fs", json!({ "op": "writeFile", "path": path })),
        ("exec", Some(program)) => ("exec", json!({ "command": program, "args": &rest[1..] })),
        ("http", Some(url)) => ("http", json!({ "url": url })),
        ("env", Some(_)) => ("env", json!({ "op": "get", "names": rest })),
        ("mcp", Some(target)) => ("mcp", json!({ "op": "call", "target": target })),
        ("tool", Some(name)) => ("tool", json!({ "name": name, "input": {} })),
        _ => {
            let known = CAPABILITIES.iter().find(|(name, _)| *name == capability && rest.is_empty());
            let Some((name, _)) = known else {
                return Err(UserError::usage(format!("{}: neither a call nor a capability", clean(&what.join(" ")))).help(
                    "write: exec git status, read PATH, write PATH, http URL, env NAME, tool NAME, mcp SERVER/TOOL, or a capability",
                ));
            };
            return decide(gate, caller, "", &Required::new(name, Subject::None));
        }
    };
    let (method, params) = params;
    let params: Map<String, Value> = params.as_object().cloned().unwrap_or_default();
    let invalid = |error: pijs_protocol::HostcallError| UserError::usage(clean(&error.message));
    let call = ParsedCall::parse(method, params, Vec::new()).map_err(invalid)?;
    let required = call.required().map_err(invalid)?;
    decide(gate, caller, method, &required)
}

/// Returns a decision, and the answers *never* that apply to it.
fn decide(gate: &Gate, caller: &Caller, method: &str, required: &Required<'_>) -> Result<(Decision, Vec<String>)> {
    match gate.judge(caller, method, required) {
        Ok(Judgement::Settled(decision) | Judgement::Ask(_, decision)) => {
            let never = if decision.rule == Rule::Never { gate.nevers(caller, required) } else { Vec::new() };
            Ok((decision, never))
        }
        Err(error) => Err(UserError::usage(clean(&error.message))),
    }
}
