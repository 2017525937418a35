//! Fuzz targets: one function for each reader of untrusted bytes.
//!
//! A target takes any bytes, never panics, and asserts the properties that hold for every input. `fuzz/` runs them under
//! libFuzzer, `tests/bounded.rs` runs each a bounded number of times on stable Rust. The input of each crash becomes a file in
//! `fixtures/regressions/<target>/`, which the same test replays.

use bytes::Bytes;
use futures_util::StreamExt as _;
use pijs_connectors::http::address::is_public;
use pijs_environment::Ambient;
use pijs_hostcall::Places;
use pijs_hostcall::derive::HttpTarget;
use pijs_hostcall::ledger;
use pijs_hostcall::scope::{Command, CompiledScope};
use pijs_hostcall::subject::ProgramContext;
use pijs_llm::provider::sse::{self, SseLimits};
use pijs_matcher::{Hit, Pattern, PatternSet, Precision, Reporting, Scan};
use pijs_packages::{
    Dirs, DiscoverOptions, InstallLimits, NpmConfig, PackageName, PackageSource, resolve_extensions, unpack,
};
use pijs_protocol::artifact::{ArtifactMetadata, EngineBuild};
use pijs_protocol::manifest::{CapabilityManifest, Scope};
use pijs_protocol::message::Load;
use pijs_protocol::{
    Delivery, EntryIndex, HostCall, HostResult, HostcallError, Message, Now, Seq, SyncReply, Termination, wire,
};
use pijs_realm::frame::{FromWorker, ToWorker, frame_length};
use pijs_redact::Redactor;
use pijs_rules::settings::RepeatMode;
use pijs_rules::{
    Condition, EngineOptions, Format, InterruptMode, MatchContext, Origin, Repeat, Rule, RuleEngine, RuleName,
    RuleSettings, Settle, Window,
};
use pijs_session_store::Session;
use pijs_session_store::entry::Body;
use pijs_tape::{Summary, TapeReader};
use pijs_webassembly as wasm;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Component, Path};
use std::sync::LazyLock;
use std::{env, fs, process, thread};

/// A reader of untrusted bytes.
pub type Target = fn(&[u8]);

/// All targets, by the name of their files and folders.
pub const TARGETS: &[(&str, Target)] = &[
    ("archive", archive),
    ("artifact", artifact),
    ("canonical_json", canonical_json),
    ("capability_manifest", capability_manifest),
    ("component", component),
    ("frames", frames),
    ("ledger", ledger),
    ("lock", lock),
    ("mcp", mcp),
    ("mcp_json", mcp_json),
    ("npmrc", npmrc),
    ("package_json", package_json),
    ("patterns", patterns),
    ("redactor", redactor),
    ("rules", rules),
    ("sanitiser", sanitiser),
    ("scope", scope),
    ("session", session),
    ("source", source),
    ("sse", sse),
    ("tape", tape),
    ("url_policy", url_policy),
    ("webassembly", webassembly),
];

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// Returns this thread's folder for readers of files, emptied.
fn folder() -> std::path::PathBuf {
    let folder = env::temp_dir().join(format!("pijs-target-{}-{:?}", process::id(), thread::current().id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the temporary folder can be written");
    folder
}

/// Reads a tarball: all files stay inside the folder.
pub fn archive(data: &[u8]) {
    let limits = InstallLimits { unpacked: 1 << 20, entries: 200, ..InstallLimits::default() };
    let Ok(unpacked) = unpack(data, &limits) else { return };
    for (path, _) in unpacked.files() {
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        assert!(inside && !path.contains('\\') && !path.contains('\0'), "{path:?}");
    }
    assert!(unpacked.size() <= limits.unpacked);
}

/// Reads a compiled extension in JavaScript or with a component: decoded input encodes to the same bytes.
pub fn artifact(data: &[u8]) {
    if let Ok(artifact) = pijs_artifact::decode(data) {
        let component = artifact.component();
        assert!(component.is_none_or(|module| module.specifier.starts_with(pijs_artifact::COMPONENT_SCHEME)));
        assert_eq!(pijs_artifact::encode(&artifact), data);
    }
}

/// Reads canonical JSON, the input of `params_hash`: each value has one encoding, which decodes to that value.
pub fn canonical_json(data: &[u8]) {
    let Ok(params) = serde_json::from_slice::<Map<String, Value>>(data) else { return };
    let form = ledger::canonical_call("fs", &params, &[]);
    let mut again: Map<String, Value> = serde_json::from_slice(&form).expect("it is JSON");
    assert_eq!(again.remove("method"), Some(Value::from("fs")));
    let Some(Value::Object(read)) = again.remove("params") else { panic!("no params: {}", text(&form)) };
    assert_eq!(ledger::canonical_call("fs", &read, &[]), form);
    assert_eq!(read.len(), params.len());
}

/// Reads a manifest in the format `pi.ext.cap.v1`.
pub fn capability_manifest(data: &[u8]) {
    if let Ok(manifest) = serde_json::from_slice::<CapabilityManifest>(data) {
        let again = serde_json::to_vec(&manifest).expect("a parsed manifest serializes");
        serde_json::from_slice::<CapabilityManifest>(&again).expect("and read again");
    }
}

/// Reads a component, or wraps a core module as one: it is refused with a message that says how to fix it, or it imports existing
/// functions, and its first turn ends within its budget.
pub fn component(data: &[u8]) {
    let compiled = match pijs_wasm::compile(data) {
        Ok(compiled) => compiled,
        Err(refusal) => {
            assert!(!refusal.message.contains('\n') && !refusal.help.is_empty(), "{refusal:?}");
            return;
        }
    };
    assert!(compiled.imports.keys().all(|name| name.starts_with("pi:extension/") || name.starts_with("wasi:")));
    let again = pijs_wasm::compile(&compiled.component).expect("the output is a component");
    assert_eq!(again, compiled);
    let module = pijs_artifact::Module {
        specifier: format!("{}0/a.wasm", pijs_artifact::COMPONENT_SCHEME),
        source: String::new(),
        source_map: None,
        bytecode: Some(compiled.code.into()),
    };
    let engine = EngineBuild { name: "test".into(), version: "0".into(), bytecode: 0, target: "test".into() };
    let metadata = ArtifactMetadata::new("a", "1.0.0", engine);
    let verified = pijs_artifact::Verified::compiled_here(pijs_artifact::Artifact { metadata, modules: vec![module] });
    let limits = wire::Limits { memory_bytes: 4 << 20, fuel: 20, stream_fuel: 20, ..wire::Limits::default() };
    let options = wire::RealmOptions {
        extension: "path:/a".into(),
        limits,
        seed: 7,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: Map::new(),
    };
    let mut realm = pijs_wasm::ComponentRealm::new(&options, &verified).expect("it was compiled here");
    let load = Message::Load(Load {
        entry: EntryIndex(0),
        module: "wasm:/0/a.wasm".to_owned(),
        path: "a.wasm".to_owned(),
        extension: "path:/a".into(),
        root: None,
    });
    let task = wire::Task::Message(Box::new(load));
    let delivery = Delivery { seq: Seq(1), now: Now::default(), task, state: None };
    let bugs = |ended| assert!(!matches!(ended, Termination::HostBug { .. }), "{ended}");
    realm.turn(delivery, &mut Refusing).map_or_else(bugs, drop);
}

/// Refuses every call of a component.
struct Refusing;

impl pijs_wasm::Hostcalls for Refusing {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let result = HostResult::failed(call.call_id, HostcallError::denied("no_grant", "not granted"));
        SyncReply { result, now: Now::default(), state: None }
    }
}

/// Reads frames between host and worker, in both directions.
pub fn frames(data: &[u8]) {
    let _ = frame_length(data);
    let _ = FromWorker::decode(data);
    let _ = ToWorker::decode(data);
}

/// Reads a ledger file: it is verified, and a last line without a line feed is ignored.
pub fn ledger(data: &[u8]) {
    if let Ok(verified) = ledger::verify(data) {
        let whole = data.iter().filter(|byte| **byte == b'\n').count() as u64;
        assert!(verified.lines <= whole);
    }
}

/// Reads a tape, as a file and unpacked: records are counted up to the valid end, and no record is read twice.
pub fn tape(data: &[u8]) {
    if let Ok(mut tape) = TapeReader::new(data) {
        let _ = Summary::of(&mut tape);
    }
    let Ok(mut tape) = TapeReader::of_lines(data.to_vec()) else { return };
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64;
    if let Ok(summary) = Summary::of(&mut tape) {
        assert!(summary.records <= lines && summary.ticks <= summary.records);
    }
    assert!(tape.next().is_none() || tape.number() <= lines);
}

/// Reads `pijs-lock.json`: its paths stay inside their packages, and it survives a round trip.
pub fn lock(data: &[u8]) {
    let Ok(lock) = pijs_packages::read_lock(data) else { return };
    for place in &lock.places {
        assert!(Path::new(place).components().all(|part| matches!(part, Component::Normal(_))), "{place:?}");
    }
    let again = pijs_packages::read_lock(lock.text.as_bytes()).expect("a parsed lock file parses again");
    assert_eq!(again, lock);
}

/// Reads the user's `.npmrc`.
pub fn npmrc(data: &[u8]) {
    let _ = NpmConfig::parse(&text(data), &|_| None);
}

/// Reads `package.json` of a package: its entries stay inside the package's folder.
pub fn package_json(data: &[u8]) {
    let root = folder();
    let package = root.join("package");
    for name in ["package/index.ts", "package/src/a.ts", "package/extensions/b/index.ts", "outside.ts"] {
        let file = root.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "export default () => {};").expect("a file");
    }
    fs::write(package.join("package.json"), data).expect("a file");
    let dirs = Dirs { agent_dir: root.join("agent"), cwd: root.join("app"), home: root.clone() };
    let named = vec![package.to_string_lossy().into_owned()];
    let found = resolve_extensions(&DiscoverOptions { dirs, named, only_named: true, trusted: false });
    let inside = package.canonicalize().expect("it was just made");
    for entry in found.packages.iter().flat_map(|package| &package.entries) {
        assert!(entry.starts_with(&inside), "{}", entry.display());
    }
    let _ = fs::remove_dir_all(root);
}

/// Reads flags, a regular expression and a text, each on a line: matching stays within limits, and does not depend on how the
/// text is cut.
pub fn patterns(data: &[u8]) {
    let data = text(data);
    let mut lines = data.splitn(3, '\n');
    let (Some(flags), Some(source), Some(text)) = (lines.next(), lines.next(), lines.next()) else { return };
    let Ok(pattern) = Pattern::parse(source, flags) else { return };
    let limits = pijs_matcher::Limits {
        automaton_bytes: 1 << 20,
        scan_bytes: 128 << 10,
        computed_bytes: 1 << 20,
        ..pijs_matcher::Limits::default()
    };
    let set = PatternSet::new(&[pattern], limits);
    let read = |pieces: &mut dyn Iterator<Item = &str>| {
        let mut scan: Scan = set.begin();
        set.ids().for_each(|id| scan.report(id, Reporting::Every));
        let mut hits: Vec<Hit> = Vec::new();
        pieces.for_each(|piece| scan.read(piece, |hit| hits.extend(hit.is_settled.then_some(hit))));
        // The states, including those at the ends of pieces, and scratch space for one state of the automaton.
        let most = limits.scan_bytes * 2 + set.memory_usage() * 4;
        assert!(scan.memory_usage() <= most, "{} of {most}", scan.memory_usage());
        (!scan.is_exhausted()).then_some(hits)
    };
    let whole = read(&mut std::iter::once(text));
    let characters = text.char_indices().map(|(at, character)| &text[at..at + character.len_utf8()]);
    // An empty text is a piece too.
    let pieces = read(&mut characters.chain([""]));
    if let (Some(whole), Some(pieces)) = (whole, pieces) {
        assert_eq!(whole, pieces, "/{source}/{flags} on {text:?}");
    }
}

/// Redacts a text: the secret is removed, and a second pass changes nothing.
pub fn redactor(data: &[u8]) {
    const SECRET: &str = "correct-horse-battery-staple";
    // Created once, because compiling its patterns takes longer than reading a short text.
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new([SECRET.to_owned()]));
    let redactor = &*REDACTOR;
    let dirty = text(data).replace('\u{fffd}', SECRET);
    let clean = redactor.text(&dirty);
    assert!(!clean.contains(SECRET), "{clean:?}");
    assert_eq!(redactor.text(&clean), clean);
}

/// Sanitises text for a terminal: no control sequence remains, whether the text comes in one piece or two.
pub fn sanitiser(data: &[u8]) {
    let dirty = text(data);
    let clean = pijs_terminal::text(&dirty);
    let mut rest = clean.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        let sequence = &rest[at..];
        let end = sequence.find('m').expect("a whole style");
        assert!(
            sequence[..end].starts_with("\u{1b}[") && sequence[2..end].bytes().all(|b| b.is_ascii_digit() || b == b';')
        );
        rest = &sequence[end + 1..];
    }
    assert!(clean.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t' | '\u{1b}')), "{clean:?}");
    let half = dirty.floor_char_boundary(dirty.len() / 2);
    let mut stream = pijs_terminal::Stream::new(pijs_terminal::Limits::default());
    let mut out = String::new();
    stream.push(&dirty[..half], &mut out);
    stream.push(&dirty[half..], &mut out);
    stream.finish(&mut out);
    assert_eq!(out, clean);
}

/// Matches scope patterns against paths, hosts and programs: time is bounded, and `src/**` matches no path outside the project.
pub fn scope(data: &[u8]) {
    let text = text(data);
    let (pattern, subject) = text.split_once('\n').unwrap_or((&text, "src/a"));
    let places =
        Places::new(Path::new("/project"), Path::new("/home/me"), Path::new("/home/me/.pi/agent"), Path::new("/tmp"));
    let one = || Some(vec![pattern.to_owned()]);
    let scope = Scope { paths: one(), hosts: one(), env: one(), commands: one(), tools: one() };
    if let Ok(compiled) = CompiledScope::compile(Some(&scope), &places, None) {
        let _ = compiled.path(Path::new(subject));
        let _ = compiled.host("https", subject, 443);
        let _ = compiled.env(subject);
        let given = ProgramContext::default();
        let _ = compiled.command(&Command {
            program: subject,
            args: &[subject],
            folder: Path::new(subject),
            given: &given,
        });
    }
    let fixed = Scope { paths: Some(vec!["src/**".to_owned()]), ..Scope::default() };
    let fixed = CompiledScope::compile(Some(&fixed), &places, None).expect("a constant scope");
    if fixed.path(Path::new(subject)) {
        assert!(Path::new(subject).starts_with("/project/src"), "{subject:?}");
    }
}

/// Reads a session file: a file that opens is repaired at most once, and an appended entry persists.
pub fn session(data: &[u8]) {
    let root = folder();
    let path = root.join("s.jsonl");
    fs::write(&path, data).expect("a file");
    let open = || Session::open(&path, &root, Ambient::system());
    if let Ok(mut first) = open() {
        let mut known: Vec<_> = first.ids().map(|(id, _)| id).collect();
        let body = Body::Custom { custom_type: "fuzz".to_owned(), data: None };
        if let Ok(entry) = first.append(body) {
            known.push(entry.id.clone());
        }
        let written = first.sync().is_ok() && fs::metadata(&path).is_ok_and(|file| file.len() > 0);
        let saved = !known.is_empty() && written;
        drop(first);
        if saved {
            let second = open().expect("the file was repaired");
            let found: Vec<_> = second.ids().map(|(id, _)| id).collect();
            assert_eq!(found, known);
        }
    }
    let _ = fs::remove_dir_all(root);
}

/// Reads the source of a package: an accepted source reads the same from settings, and stays below its folder.
pub fn source(data: &[u8]) {
    let text = text(data);
    let (cwd, home) = (Path::new("/project"), Path::new("/home/me"));
    if let Ok(source) = PackageSource::parse(&text, cwd, home)
        && let Ok(again) = PackageSource::from_settings(&source.to_settings(cwd), cwd, home)
    {
        assert_eq!(again.identity(), source.identity());
    }
    if let Ok(name) = PackageName::parse(&text) {
        let inside = Path::new(name.as_str()).components().all(|part| matches!(part, Component::Normal(_)));
        assert!(inside && !name.as_str().starts_with('.'));
    }
}

/// Reads server-sent events: the events do not depend on how the bytes are cut.
pub fn sse(data: &[u8]) {
    let read = |chunks: Vec<Bytes>| {
        let body = futures_util::stream::iter(chunks.into_iter().map(Ok));
        let events = sse::events(body, SseLimits { line: 1 << 16, body: 1 << 20 });
        let collected = events
            .take_while(|event| std::future::ready(event.is_ok()))
            .filter_map(|event| std::future::ready(event.ok()));
        futures_util::FutureExt::now_or_never(collected.collect::<Vec<_>>()).expect("nothing to wait for")
    };
    let whole = read(vec![Bytes::copy_from_slice(data)]);
    let cut = read(data.chunks(3).map(Bytes::copy_from_slice).collect());
    assert_eq!(whole, cut);
}

/// Reads the standard output of an MCP server: limits apply however the output is cut, and the content of a message is text
/// blocks.
pub fn mcp(data: &[u8]) {
    let taken = |size: usize| {
        let mut flow = pijs_mcp::flow::Flow::default();
        data.chunks(size.max(1)).try_for_each(|chunk| flow.take(chunk))
    };
    assert_eq!(taken(1), taken(data.len()));
    for line in data.split(|byte| *byte == b'\n') {
        let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
        let result = value.get("result").unwrap_or(&value).clone();
        let mut answer = pijs_mcp::results::of_tool("s", result.clone()).unwrap_or_default();
        let whole = answer.cut();
        assert!(whole.is_none() || answer.text().len() < pijs_mcp::results::MAX_TEXT + 200);
        let _ = pijs_mcp::results::of_resource(result.clone());
        let said = pijs_mcp::results::of_prompt("s", result).unwrap_or_default();
        assert!(said.len() <= pijs_mcp::results::MAX_TEXT + 3);
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let named = pijs_mcp::names::of_all(&[("s".to_owned(), name.to_owned()), ("s".to_owned(), format!("{name}."))]);
        assert!(named[0] != named[1] && named.iter().all(|name| name.len() <= 64));
    }
}

/// Reads `mcp.json`: names are plain, and unique.
pub fn mcp_json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut problems = Vec::new();
    let parsed = pijs_mcp::config::Parsed::parse(&text, "mcp.json");
    let servers = pijs_mcp::config::merge(parsed.clone(), parsed, &mut problems);
    let names: BTreeSet<String> = servers.iter().map(|server| server.name.replace('-', "_")).collect();
    assert_eq!(names.len(), servers.len());
    assert!(servers.iter().all(|server| pijs_mcp::config::check_name(&server.name).is_ok()));
}

/// Reads a line of options, a rule file, a line `===`, and a stream: within limits, and independent of how the stream is cut.
pub fn rules(data: &[u8]) {
    const FORMATS: &[Format] = &[Format::Pi, Format::Omp, Format::Cursor, Format::BuiltIn];
    const MODES: &[InterruptMode] =
        &[InterruptMode::Always, InterruptMode::ProseOnly, InterruptMode::ToolOnly, InterruptMode::Never];
    let data = text(data);
    let (choices, rest) = data.split_once('\n').unwrap_or(("", &data));
    let (file, stream) = rest.split_once("\n===\n").unwrap_or((rest, ""));
    let choice = |at: usize, of: usize| choices.as_bytes().get(at).map_or(0, |byte| usize::from(*byte) % of);
    let settings = RuleSettings {
        enabled: true,
        interrupt_mode: MODES[choice(1, MODES.len())],
        repeat_mode: [RepeatMode::Once, RepeatMode::AfterGap][choice(2, 2)],
        max_retries_per_turn: u32::from(choice(2, 3) == 0),
        ..RuleSettings::default()
    };
    let context = [
        MatchContext::text(0),
        MatchContext::thinking(0),
        MatchContext::tool("write", "call", 0),
        MatchContext::tool("edit", "call", 0),
        MatchContext::tool("apply_patch", "call", 0),
        MatchContext::tool("bash", "call", 0),
    ][choice(3, 6)];
    let trace = choice(4, 2) * 8;
    // Lengths of the pieces, used cyclically.
    let mut lengths: Vec<usize> = choices.bytes().skip(5).map(|byte| 1 + usize::from(byte % 16)).collect();
    lengths.push(1);

    let path = Path::new("rules/fuzzed.md");
    let file = pijs_rules::file::parse(path, file, FORMATS[choice(0, FORMATS.len())], Origin::Project);
    pijs_rules::lint::lint(std::slice::from_ref(&file), &settings).iter().for_each(|found| drop(found.render()));
    let run = |rules: &[Rule], trace, pieces: &[&str]| fired(rules, &settings, trace, &context, pieces);
    let mut rest = stream;
    let mut pieces = Vec::new();
    for length in lengths.into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at));
        pieces.push(piece);
        rest = after;
    }
    // An empty piece has no effect, but a text that is empty is one piece.
    pieces.push("");
    // With the file's setting, a rule may also fire on a match that later text undoes, so cutting may only add to the rules that
    // fire.
    if let (Some(whole), Some(cut)) = (run(&file.rules, trace, &[stream]), run(&file.rules, trace, &pieces)) {
        assert!(whole.is_subset(&cut), "in one piece {whole:?}, in {pieces:?} {cut:?}");
    }
    let mut settled = file.rules;
    settled.iter_mut().for_each(|rule| rule.settle = Settle::Line);
    if let (Some(whole), Some(cut)) = (run(&settled, 0, &[stream]), run(&settled, trace, &pieces)) {
        assert_eq!(whole, cut, "settled, in one piece and in {pieces:?}");
    }
}

/// Returns the rules that fire on a stream, except those that depend on its pieces or have patterns that are not automata. `None`
/// if a pattern exceeded its limits.
fn fired(
    rules: &[Rule],
    settings: &RuleSettings,
    trace: usize,
    context: &MatchContext<'_>,
    pieces: &[&str],
) -> Option<BTreeSet<RuleName>> {
    let engine =
        || RuleEngine::new(rules.to_vec(), settings.clone(), EngineOptions { trace, ..EngineOptions::default() });
    let read = |engine: &mut RuleEngine| {
        let mut firings: Vec<_> = pieces.iter().filter_map(|piece| engine.check_delta(piece, context)).collect();
        firings.extend(engine.end_of_call(context));
        firings.extend(engine.end_of_message(0));
        let names: Vec<RuleName> = firings.into_iter().flat_map(|firing| firing.rules).map(|rule| rule.name).collect();
        let set: BTreeSet<RuleName> = names.iter().cloned().collect();
        assert_eq!(set.len(), names.len(), "a rule fires once in a message: {names:?}");
        set
    };
    let mut first = engine();
    first.begin_turn();
    let mut names = read(&mut first);
    let (stats, length) = (first.stats(), pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
    // Counts a lane for each region and window of the rules, and the budgets of repeated searches.
    let (count, patterns) = (rules.len() as u64, rules.iter().map(|rule| rule.conditions.len() as u64).sum::<u64>());
    assert!(stats.scanned_bytes <= 2 * count * length, "{stats:?} for {length}");
    assert!(stats.searched_bytes <= (4 << 20) + (128 + 6 * patterns) * (length + 64), "{stats:?} for {length}");

    // A rule that fires once does not fire again, in this process or the next.
    let mut resumed = engine();
    resumed.restore(first.injected_records());
    let again = read(&mut first).union(&read(&mut resumed)).cloned().collect::<BTreeSet<_>>();
    let is_once = |rule: &Rule| rule.repeat.unwrap_or(settings.repeat()) == Repeat::Once;
    let once: BTreeSet<RuleName> = rules.iter().filter(|rule| is_once(rule)).map(|rule| rule.name.clone()).collect();
    assert!(names.intersection(&again).all(|name| !once.contains(name)), "{names:?}, then {again:?}");

    let is_exact = |rule: &Rule| {
        let exact = |source: &Condition| {
            Pattern::parse(&source.source, &source.flags).is_ok_and(|pattern| pattern.precision() == Precision::Exact)
        };
        rule.window != Window::Chunk && rule.conditions.iter().all(exact)
    };
    names.retain(|name| rules.iter().any(|rule| rule.name == *name && is_exact(rule)));
    first.take_reports().is_empty().then_some(names)
}

/// Matches a URL against a scope: it has one interpretation, and look-alike hosts do not match.
pub fn url_policy(data: &[u8]) {
    let text = text(data);
    if let Ok(target) = HttpTarget::parse(&text) {
        let written = format!("{}://{}:{}/", target.scheme, target.host, target.port);
        assert_eq!(HttpTarget::parse(&written).as_ref(), Ok(&target), "{written:?}");
        let places =
            Places::new(Path::new("/project"), Path::new("/home/me"), Path::new("/home/me/agent"), Path::new("/tmp"));
        let hosts = Some(vec!["example.org".to_owned(), "*.example.net:8443".to_owned()]);
        let scope = CompiledScope::compile(Some(&Scope { hosts, ..Scope::default() }), &places, None);
        let inside = scope.expect("a constant scope").host(target.scheme, &target.host, target.port);
        let usual = if target.scheme == "https" { 443 } else { 80 };
        let exact = target.host == "example.org" && target.port == usual;
        let below = target.host.ends_with(".example.net") && target.host.len() > 12 && target.port == 8443;
        assert_eq!(inside, exact || below, "{target:?}");
    }
    if let Some(octets) = data.first_chunk::<4>() {
        let plain = Ipv4Addr::from(*octets);
        assert_eq!(is_public(IpAddr::V6(plain.to_ipv6_mapped())), is_public(IpAddr::V4(plain)), "{plain}");
    }
}

/// A realm with a small budget and little memory, whose imported functions fail.
struct SmallRealm {
    polls: std::cell::Cell<u64>,
    memory: std::cell::Cell<usize>,
}

impl wasm::Embedder for SmallRealm {
    fn call_import(
        &self,
        _: wasm::Context<'_>,
        _: wasm::ImportId,
        _: &[wasm::Value],
    ) -> Result<Vec<wasm::Value>, wasm::Stopped> {
        Err(wasm::Stopped)
    }

    fn poll(&self, polls: u64) -> bool {
        let left = self.polls.get().checked_sub(polls);
        self.polls.set(left.unwrap_or_default());
        left.is_some()
    }

    fn take_memory(&self, bytes: usize) -> bool {
        let left = self.memory.get().checked_sub(bytes);
        self.memory.set(left.unwrap_or(self.memory.get()));
        left.is_some()
    }

    fn give_back_memory(&self, bytes: usize) {
        self.memory.set(self.memory.get() + bytes);
    }
}

/// Reads a WebAssembly module: a valid module compiles, and runs within its budget.
pub fn webassembly(data: &[u8]) {
    let realm = SmallRealm { polls: std::cell::Cell::new(50), memory: std::cell::Cell::new(4 << 20) };
    let mut store = wasm::Store::new(std::rc::Rc::new(realm));
    let mut context = store.context();
    let valid = context.validate(data);
    let Ok(module) = context.compile(data) else { return };
    assert_eq!(valid, Ok(true));
    let mut imports = Vec::new();
    for import in context.imports(module).to_vec() {
        let wasm::ExternType::Func(ty) = import.ty else { return };
        imports.push(wasm::External::Func(context.import_function(&ty, wasm::ImportId(0))));
    }
    let Ok(instance) = context.instantiate(module, &imports) else { return };
    if let Some(start) = instance.start {
        let _ = context.call(start, &[]);
    }
    for export in instance.exports {
        let wasm::External::Func(func) = export else { continue };
        if context.func_type(func).params.is_empty() {
            let _ = context.call(func, &[]);
        }
    }
}
