//! The capabilities that a package requests, as data and as text for the user.
//!
//! [`requested`] combines the scan of the code with the declaration of the package (`pi.ext.cap.v1`). The code determines the
//! requested capabilities; a declaration can narrow their scopes, and add capabilities that the scan cannot see. Capabilities
//! that need no consent are left out. The user is prompted about exactly the result, and grants are bound to it.
//!
//! ```text
//! scan      exec [git], http any, read ["."], verdict
//! declared  http [api.github.com]
//! asked     exec [git *], http [api.github.com], verdict
//! ```

use crate::policy::usual_paths;
use crate::prompt::shown;
use crate::scope::RAW;
use crate::variables::{VariablePattern, split_assignments};
use crate::vocabulary::{CAPABILITIES, FREE, is_free_variable};
use pijs_programs::{self as programs, Kind};
use pijs_protocol::characters::fits;
pub use pijs_protocol::grant_commands::{allow_command, revoke_command};
pub use pijs_protocol::manifest::widening;
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest, CapabilityRequest, Scope};
use pijs_protocol::{Capability, guard};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Maximum length of a displayed scope entry, in characters.
const MAX_ENTRY_CHARS: usize = 120;
/// Maximum number of scope entries that one list displays. For a longer list the prompt shows a wider request.
const MAX_ENTRIES: usize = 40;

/// A capability manifest as the package author wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The parsed manifest.
    pub manifest: CapabilityManifest,
    /// Unknown members and capabilities, for which strict mode refuses the package.
    pub unknown: Vec<String>,
}

/// Parses the manifest of a package: the value of `pi.capabilities` in its `package.json`, or its `extension.json`.
///
/// Accepts the whole manifest, its list of requests, or a flat list of names. The error names the invalid member.
pub fn parse_declared(value: &Value) -> Result<Declared, String> {
    let value = value.get("capability_manifest").unwrap_or(value);
    let mut unknown = Vec::new();
    let list = match value {
        Value::Object(members) => {
            match members.get("schema") {
                None => {}
                Some(schema) if schema == CAPABILITY_SCHEMA => {}
                Some(other) => {
                    return Err(format!("the schema {} is not {CAPABILITY_SCHEMA}", shown(&other.to_string(), 60)));
                }
            }
            // `extension.json` may have other members as well.
            if members.contains_key("schema") {
                note_unknown(members, &["schema", "capabilities"], "", &mut unknown);
            }
            members.get("capabilities").unwrap_or(&Value::Null)
        }
        other => other,
    };
    let Value::Array(items) = list else {
        return Err("`capabilities` is not a list".to_owned());
    };
    let mut capabilities = Vec::new();
    for item in items {
        let request = match item {
            Value::String(name) => {
                CapabilityRequest { capability: Capability::new(name.as_str()), methods: None, scope: None }
            }
            Value::Object(members) => {
                note_unknown(members, &["capability", "methods", "scope"], "capabilities[].", &mut unknown);
                if let Some(Value::Object(scope)) = members.get("scope") {
                    note_unknown(
                        scope,
                        &["paths", "hosts", "env", "commands", "tools"],
                        "capabilities[].scope.",
                        &mut unknown,
                    );
                }
                serde_json::from_value(item.clone()).map_err(|error| format!("a capability is malformed: {error}"))?
            }
            _ => return Err("a capability is neither a name nor an object".to_owned()),
        };
        if !CAPABILITIES.iter().any(|(name, _)| *name == request.capability.as_str()) {
            unknown.push(format!("the capability {:?}", shown(request.capability.as_str(), 60)));
        }
        capabilities.push(request);
    }
    Ok(Declared { manifest: CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities }, unknown })
}

fn note_unknown(members: &Map<String, Value>, known: &[&str], within: &str, unknown: &mut Vec<String>) {
    let strange = members.keys().filter(|key| !known.contains(&key.as_str()));
    unknown.extend(strange.map(|key| format!("the member {within}{}", shown(key, 60))));
}

/// Combines scan and declaration into the requests of a package, sorted by capability, without requests that need no consent.
pub fn requested(found: &CapabilityManifest, declared: Option<&CapabilityManifest>) -> CapabilityManifest {
    let declared = declared.map(|manifest| manifest.capabilities.as_slice()).unwrap_or_default();
    let mut requests: Vec<CapabilityRequest> = Vec::new();
    for seen in &found.capabilities {
        let narrower = declared.iter().find(|request| request.capability == seen.capability);
        requests.push(CapabilityRequest {
            capability: seen.capability.clone(),
            methods: narrower.and_then(|request| request.methods.clone()),
            scope: narrower
                .and_then(|request| request.scope.clone())
                .or_else(|| seen.scope.clone().map(without_steering)),
        });
    }
    for request in declared {
        if !requests.iter().any(|known| known.capability == request.capability) {
            requests.push(request.clone());
        }
    }
    let mut capabilities: Vec<CapabilityRequest> = requests
        .into_iter()
        .map(normalized)
        .filter(|request| !needs_no_asking(request))
        .map(without_free_places)
        .collect();
    capabilities.sort_by(|a, b| a.capability.cmp(&b.capability));
    CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities }
}

/// Removes variables that steer programs from a scope that the scan found, because such variables have to be declared.
fn without_steering(mut scope: Scope) -> Scope {
    for command in scope.commands.iter_mut().flatten() {
        let describe = command.split_whitespace();
        let is_steering = |word: &&str| VariablePattern::parse(word).is_some_and(|pattern| pattern.is_steering());
        if describe.clone().any(|word| is_steering(&word)) {
            *command = describe.filter(|word| !is_steering(word)).collect::<Vec<_>>().join(" ");
        }
    }
    scope
}

/// Normalizes a request to the grant that accepts it: default folders for files; all arguments for tools that can run other
/// programs, because an extension expects all arguments to work.
fn normalized(mut request: CapabilityRequest) -> CapabilityRequest {
    match request.capability.as_str() {
        "read" | "write" => {
            let paths = request.scope.and_then(|scope| scope.paths).unwrap_or_else(|| vec![".".to_owned()]);
            let mut all = Vec::new();
            for path in paths {
                if path == "." || path == "./" {
                    all.extend(usual_paths().paths.unwrap_or_default());
                } else {
                    all.push(path);
                }
            }
            all.sort();
            all.dedup();
            request.scope = Some(Scope { paths: Some(all), ..Scope::default() });
        }
        "exec" => {
            if let Some(commands) = request.scope.as_mut().and_then(|scope| scope.commands.as_mut()) {
                for command in commands.iter_mut() {
                    let is_open = matches!(split_assignments(command).1.as_slice(), [program] if programs::is_used_in_full(program));
                    if is_open {
                        command.push_str(" *");
                    }
                }
                commands.sort();
                commands.dedup();
            }
        }
        _ => {}
    }
    request
}

fn needs_no_asking(request: &CapabilityRequest) -> bool {
    let scope = request.scope.as_ref();
    match request.capability.as_str() {
        "read" => {
            let inside = |path: &String| {
                let free = ["<project>", "<package>", "<pi>", "<temp>"].iter().any(|token| path.starts_with(token));
                let relative = !path.starts_with(['/', '~', '<']);
                (free || relative) && !path.split('/').any(|name| name == "..")
            };
            scope.and_then(|scope| scope.paths.as_ref()).is_some_and(|paths| paths.iter().all(inside))
        }
        "env" => scope
            .and_then(|scope| scope.env.as_ref())
            .is_some_and(|names| names.iter().all(|name| is_free_variable(name))),
        capability => FREE.contains(&capability),
    }
}

/// Removes the locations that every extension may read, unless the request has no others.
fn without_free_places(mut request: CapabilityRequest) -> CapabilityRequest {
    let paths = request.scope.as_mut().and_then(|scope| scope.paths.as_mut());
    if request.capability.as_str() == "read"
        && let Some(paths) = paths
    {
        paths.retain(|path| !["<project>", "<package>", "<pi>"].contains(&path.as_str()));
    }
    request
}

/// Returns `sha256:HEX` over a manifest. Grants are bound to this digest and to the code.
pub fn digest(manifest: &CapabilityManifest) -> String {
    let bytes = serde_json::to_vec(&manifest.capabilities).unwrap_or_default();
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Formats a request for `pi ext grants allow`: one grant for each scope entry, with paths normalized.
pub fn as_grants(request: &CapabilityRequest) -> Vec<String> {
    let capability = request.capability.as_str();
    let scope = request.scope.clone().unwrap_or_default();
    // An empty list grants nothing; the bare capability would grant everything.
    let lists = [&scope.paths, &scope.hosts, &scope.commands, &scope.env, &scope.tools];
    let names_nothing = lists.into_iter().any(Option::is_some);
    let paths = scope.paths.iter().flatten().map(|path| without_climbing(path));
    let others = [scope.hosts, scope.commands, scope.env, scope.tools].into_iter().flatten().flatten();
    let scoped: Vec<String> = paths.chain(others).map(|one| format!("{capability}:{one}")).collect();
    if scoped.is_empty() && !names_nothing { vec![capability.to_owned()] } else { scoped }
}

/// Describes one request for the user: `run programs: npm, git with any arguments (can run anything)`.
pub fn describe(request: &CapabilityRequest) -> String {
    let capability = request.capability.as_str();
    let mut out = match CAPABILITIES.iter().find(|(name, _)| *name == capability) {
        Some((_, describe)) => (*describe).to_owned(),
        None => shown(capability, MAX_ENTRY_CHARS),
    };
    let scope = request.scope.as_ref();
    let (list, any): (Option<&Vec<String>>, _) = match capability {
        "read" | "write" => (scope.and_then(|scope| scope.paths.as_ref()), "anywhere"),
        "http" => (scope.and_then(|scope| scope.hosts.as_ref()), "any server"),
        "env" => (scope.and_then(|scope| scope.env.as_ref()), "any variable"),
        "mcp" => (scope.and_then(|scope| scope.tools.as_ref()), "any tool of any server"),
        "exec" => (scope.and_then(|scope| scope.commands.as_ref()), "any program (can run anything)"),
        _ => return out,
    };
    let show = |entry: &String| match capability {
        "read" | "write" => place(entry),
        "exec" => program(entry),
        "http" => server(entry),
        _ => shown(entry, MAX_ENTRY_CHARS),
    };
    match list.map(Vec::as_slice) {
        None => out.push_str(&format!(": {any}")),
        Some([]) => out.push_str(": none"),
        Some(entries) => {
            let seen: Vec<String> = entries.iter().take(MAX_ENTRIES).map(show).collect();
            out.push_str(&format!(": {}", seen.join(", ")));
            if entries.len() > MAX_ENTRIES {
                out.push_str(&format!(" and {} more", entries.len() - MAX_ENTRIES));
            }
            // Consent covers only what is shown, so a list that cannot be shown whole is shown as the wider request.
            let is_whole = |entry: &String| fits(entry, MAX_ENTRY_CHARS);
            let hides = entries.len() > MAX_ENTRIES || !entries.iter().all(is_whole);
            if hides && guard!(PromptWholeRequest) {
                out.push_str(&format!(" - too long to show; the request is for {any}"));
            }
        }
    }
    if let Some(methods) = &request.methods {
        out.push_str(&format!(" (only through {})", shown(&methods.join(", "), MAX_ENTRY_CHARS)));
    }
    out
}

fn place(path: &str) -> String {
    match path {
        "<project>" => "this project".to_owned(),
        "<package>" => "its own package".to_owned(),
        "<pi>" => "the .pi folders".to_owned(),
        "<temp>" => "temporary files".to_owned(),
        other if guard!(PromptWholeRequest) => match without_climbing(other).as_str() {
            "." => "this project".to_owned(),
            counts => shown(counts, MAX_ENTRY_CHARS),
        },
        other => shown(other, MAX_ENTRY_CHARS),
    }
}

/// Normalizes a pattern by removing each component that is followed by `..`.
fn without_climbing(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (at, name) in path.split('/').enumerate() {
        let is_only = names.len() == 1;
        match (name, names.last()) {
            ("" | ".", _) if at > 0 => {}
            // The parent of the root is the root. A leading `<folder>` is not resolved here, so a `..` after it stays.
            ("..", Some(&"")) => {}
            ("..", Some(&("." | ".."))) => names.push(name),
            ("..", Some(last)) if !(is_only && last.starts_with(['<', '~'])) => drop(names.pop()),
            _ => names.push(name),
        }
    }
    match names.as_slice() {
        [] => ".".to_owned(),
        [""] if path.is_empty() => ".".to_owned(),
        [""] => "/".to_owned(),
        names => names.join("/"),
    }
}

fn server(host: &str) -> String {
    match host.strip_prefix(RAW) {
        Some("*") => "raw connections to any server".to_owned(),
        Some(raw) => format!("raw connections to {}", shown(raw, MAX_ENTRY_CHARS)),
        None if host == "*" => "any server".to_owned(),
        None => shown(host, MAX_ENTRY_CHARS),
    }
}

fn program(line: &str) -> String {
    // A grant's words are separated by any blanks.
    let line = &line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (variables, describe) = split_assignments(line);
    if !variables.is_empty() {
        let names: Vec<String> = variables.iter().map(VariablePattern::shown).collect();
        let names = shown(&names.join(", "), MAX_ENTRY_CHARS);
        return format!("{} with the variables {names}", program(&describe.join(" ")));
    }
    if let Some(whole) = line.strip_suffix(" \"\"") {
        return format!("{} with no further arguments", shown(whole, MAX_ENTRY_CHARS));
    }
    let name = describe.first().copied().unwrap_or_default();
    match (line.strip_suffix(" *"), programs::kind_of(name)) {
        (Some(named), Kind::Plain) => format!("{} with any arguments", shown(named, MAX_ENTRY_CHARS)),
        (Some(named), _) => format!("{} with any arguments (can run anything)", shown(named, MAX_ENTRY_CHARS)),
        (None, Kind::Interpreter) => format!("{} (can run anything)", shown(line, MAX_ENTRY_CHARS)),
        (None, _) => shown(line, MAX_ENTRY_CHARS),
    }
}

/// Returns warnings about capabilities that are risky in combination.
pub fn combinations(requests: &[CapabilityRequest]) -> Vec<&'static str> {
    let asks = |name: &str| requests.iter().any(|request| request.capability.as_str() == name);
    let mut notes = Vec::new();
    if asks("http") {
        notes.push("it can read files and talk to servers, so it can send files out");
    }
    match (asks("write"), asks("exec")) {
        (true, true) => notes.push("it can write files and run programs, so it can run anything"),
        (true, false) => notes.push("files in the project can make programs run"),
        _ => {}
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(value: Value) -> CapabilityManifest {
        parse_declared(&value).expect("well-formed").manifest
    }

    #[test]
    fn the_code_determines_requests_and_a_declaration_narrows_or_adds() {
        let found = manifest(json!([
            {"capability": "exec", "scope": {"commands": ["git", "ls"]}}, {"capability": "http"},
            {"capability": "read", "scope": {"paths": ["."]}}, "verdict", "log", "tools",
            {"capability": "env", "scope": {"env": ["HOME"]}},
        ]));
        let declared = manifest(json!([
            {"capability": "http", "scope": {"hosts": ["api.github.com"]}}, {"capability": "write", "methods": ["fs"]},
        ]));
        let requested = requested(&found, Some(&declared));
        let lines: Vec<String> = requested.capabilities.iter().map(describe).collect();
        assert_eq!(
            lines,
            [
                "run programs: git with any arguments (can run anything), ls",
                "talk to servers: api.github.com",
                "stop and retry what the model is writing",
                "create, change and delete files: its own package, the .pi folders, this project, temporary files (only through fs)",
            ]
        );
        assert_eq!(
            combinations(&requested.capabilities),
            [
                "it can read files and talk to servers, so it can send files out",
                "it can write files and run programs, so it can run anything",
            ]
        );
    }

    #[test]
    fn reading_outside_and_open_scopes_need_consent() {
        let found =
            manifest(json!([{"capability": "read", "scope": {"paths": [".", "/etc/hosts"]}}, "exec", "http", "env"]));
        let lines: Vec<String> = requested(&found, None).capabilities.iter().map(describe).collect();
        assert!(lines[0].starts_with("read environment variables: any variable"), "{lines:?}");
        assert!(lines[1].ends_with(": any program (can run anything)"), "{lines:?}");
        assert!(lines[3].contains("/etc/hosts"), "{lines:?}");
        let sneaky = manifest(json!([{"capability": "read", "scope": {"paths": ["<project>/../../etc"]}}]));
        assert_eq!(requested(&sneaky, None).capabilities.len(), 1);
    }

    #[test]
    fn only_additions_are_a_widening() {
        let old = manifest(json!([{"capability": "exec", "scope": {"commands": ["ls"]}}, "verdict", "http"]));
        let cases = [
            (json!([{"capability": "exec", "scope": {"commands": ["ls"]}}]), vec![]),
            (json!([{"capability": "exec", "scope": {"commands": []}}]), vec![]),
            (json!([{"capability": "exec", "scope": {"commands": ["ls", "cat"]}}]), vec!["run programs: cat"]),
            (json!(["exec"]), vec!["run programs: any program (can run anything)"]),
            (
                json!([{"capability": "exec", "scope": {"paths": ["x"]}}]),
                vec!["run programs: any program (can run anything)"],
            ),
            (json!([{"capability": "http", "scope": {"hosts": ["a.example"]}}]), vec![]),
            // A request for any server does not cover raw connections.
            (
                json!([{"capability": "http", "scope": {"hosts": ["*", "tcp://*"]}}]),
                vec!["talk to servers: raw connections to any server"],
            ),
            (json!([{"capability": "env", "scope": {"env": ["A"]}}]), vec!["read environment variables: A"]),
        ];
        for (new, expected) in cases {
            let more: Vec<String> = widening(&old, &manifest(new.clone())).iter().map(describe).collect();
            assert_eq!(more, expected, "{new}");
        }
        let through = manifest(json!([{"capability": "exec", "methods": ["exec"]}]));
        assert_eq!(widening(&through, &manifest(json!(["exec"]))).len(), 1);
    }

    #[test]
    fn unknown_members_and_capabilities_are_reported() {
        let declared = parse_declared(&json!({
            "schema": "pi.ext.cap.v1", "extra": 1,
            "capabilities": [{"capability": "fly", "scope": {"paths": [], "wings": []}, "why": "x"}],
        }));
        assert_eq!(
            declared.expect("readable").unknown,
            [
                "the member extra",
                "the member capabilities[].why",
                "the member capabilities[].scope.wings",
                "the capability \"fly\"",
            ]
        );
        for bad in [
            json!({"schema": "other", "capabilities": []}),
            json!(3),
            json!({"capabilities": 3}),
            json!([3]),
            json!([{}]),
        ] {
            assert!(parse_declared(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_is_displayed_in_normalized_form() {
        for (path, counts) in [
            ("src/**", "src/**"),
            ("docs/long-name/../../../../etc", "../../etc"),
            ("<project>/a/../../x", "<project>/../x"),
            ("~/notes/../.ssh", "~/.ssh"),
            ("/home/me/../../..//etc/./x", "/etc/x"),
            ("a//../b", "b"),
            (".hidden/../x", "x"),
            ("./../x", "./../x"),
            ("a/..", "."),
            ("/..", "/"),
            ("", "."),
        ] {
            assert_eq!(without_climbing(path), counts, "{path}");
        }
    }

    #[test]
    fn long_lists_are_shown_as_the_wider_request() {
        let said = |capability: &str, list: &str, entries: Vec<String>| {
            let scope = json!({ list: entries });
            describe(&manifest(json!([{"capability": capability, "scope": scope}])).capabilities[0])
        };
        let many = |count: usize| (0..count).map(|n| format!("h{n}.org")).collect::<Vec<_>>();
        assert!(!said("http", "hosts", many(40)).contains("any server"));
        assert!(
            said("http", "hosts", many(41)).ends_with("and 1 more - too long to show; the request is for any server")
        );
        let long = vec![format!("{}sh", " ".repeat(200))];
        assert!(said("exec", "commands", long).ends_with("the request is for any program (can run anything)"));
        let long = vec![format!("{}/../../../../etc", "x".repeat(200))];
        assert_eq!(
            said("write", "paths", long),
            "create, change and delete files: ../../../etc - too long to show; the request is for anywhere"
        );
    }

    #[test]
    fn descriptions_contain_no_control_characters() {
        let found = manifest(json!([{"capability": "exec", "scope": {"commands": ["ls\u{1b}[2K"]}}, "x\u{202e}y"]));
        for request in &requested(&found, None).capabilities {
            assert!(!describe(request).contains(['\u{1b}', '\u{202e}']));
        }
    }

    #[test]
    fn any_blanks_separate_the_words_of_a_command() {
        for line in ["git *", "git * ", "git\t*", "git\u{a0}*"] {
            let asked = manifest(json!([{"capability": "exec", "scope": {"commands": [line]}}]));
            let told = describe(&asked.capabilities[0]);
            assert!(told.contains("git with any arguments (can run anything)"), "{line:?}: {told}");
        }
    }
}
