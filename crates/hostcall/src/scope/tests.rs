//! Tests compiled scopes: patterns, and the subjects that each one covers.

use super::paths::{MAX_ALTERNATIVES, MAX_PATTERN_BYTES};
use super::*;
use crate::places::normal;
use crate::subject::{Input, ProgramContext};
use crate::variables::Variable;

fn places() -> Places {
    Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp")
}

fn paths(patterns: &[&str]) -> CompiledScope {
    let scope = Scope { paths: Some(patterns.iter().map(|p| (*p).to_owned()).collect()), ..Scope::default() };
    CompiledScope::compile(Some(&scope), &places(), Some(Path::new("/pkg"))).unwrap()
}

fn hosts(patterns: &[&str]) -> CompiledScope {
    let scope = Scope { hosts: Some(patterns.iter().map(|p| (*p).to_owned()).collect()), ..Scope::default() };
    CompiledScope::compile(Some(&scope), &places(), None).unwrap()
}

#[test]
fn an_empty_list_allows_nothing_and_a_missing_one_does_not_restrict() {
    assert!(!paths(&[]).path(Path::new("/projects/app/x")));
    assert!(CompiledScope::default().path(Path::new("/anything")));
    assert!(!hosts(&[]).host("https", "example.com", 443));
}

#[test]
fn raw_connections_are_explicit() {
    let scope = hosts(&["tcp://db.example:5432", "tcp://127.0.0.1:*", "api.example"]);
    assert!(scope.raw_host("db.example", 5432) && scope.host("tcp", "db.example", 5432));
    assert!(!scope.host("http", "db.example", 5432) && !scope.raw_host("db.example", 5433));
    assert!(scope.raw_host("127.0.0.1", 6379));
    assert!(scope.host("tcp", "api.example", 80) && !scope.raw_host("api.example", 80));
    assert!(hosts(&["tcp://*"]).raw_host("any.example", 7) && !hosts(&["*"]).raw_host("any.example", 7));
    assert!(!CompiledScope::default().raw_host("any.example", 7));
    let portless = Scope { hosts: Some(vec!["tcp://db.example".to_owned()]), ..Scope::default() };
    assert!(CompiledScope::compile(Some(&portless), &places(), None).is_err());
}

#[test]
fn a_pattern_starts_at_the_project_and_stops_at_its_folder() {
    let scope = paths(&["src/**", "docs", "*.md", "<package>/data/**", "<temp>", "/srv/one.txt"]);
    for inside in ["src", "src/a/b", "docs", "docs/x", "a.md", "/pkg/data/x", "/tmp/x/y", "/srv/one.txt"] {
        assert!(scope.path(&normal(Path::new("/projects/app"), Path::new(inside))), "{inside}");
    }
    for outside in ["srcs/a", "x/a.md", "SRC/a", "/pkg/other", "/tmpx", "/srv/one.txt2", "/etc/passwd", "src/../x"] {
        assert!(!scope.path(&normal(Path::new("/projects/app"), Path::new(outside))), "{outside}");
    }
}

#[test]
fn a_base_folder_with_glob_characters_is_a_name() {
    let places = Places::new("/projects/[a]*", "/home/me", "/home/me/.pi/agent", "/tmp");
    let scope = Scope { paths: Some(vec!["*.md".into()]), ..Scope::default() };
    let scope = CompiledScope::compile(Some(&scope), &places, None).unwrap();
    assert!(scope.path(Path::new("/projects/[a]*/x.md")));
    assert!(!scope.path(Path::new("/projects/ab/x.md")));
}

/// A backslash is an escape in patterns, but an ordinary character in names.
#[test]
fn a_backslash_in_a_name_is_a_character() {
    let places = Places::new("/projects/a\\b", "/home/me", "/home/me/.pi/agent", "/tmp");
    let compile = |patterns: &[&str]| {
        let scope = Scope { paths: Some(patterns.iter().map(|p| (*p).to_owned()).collect()), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places, None).expect("it compiles")
    };
    let scope = compile(&["*.md"]);
    assert!(scope.path(Path::new("/projects/a\\b/x.md")));
    assert!(!scope.path(Path::new("/projects/ab/x.md")));
    for name in ["/data/a\\*b", "/data/a\\b", "/data/\\{x", "/data/[x]\\"] {
        let scope = compile(&[&escaped_path(Path::new(name))]);
        assert!(scope.path(Path::new(name)), "{name}");
        for other in ["/data/a[xb", "/data/a\\xb", "/data/ab", "/data/[x", "/data/x", "/data/x\\", "/data/{x"] {
            assert!(!scope.path(Path::new(other)), "{name} is not {other}");
        }
    }
}

#[test]
fn pattern_bombs_are_refused() {
    let compiles = |pattern: String| {
        let scope = Scope { paths: Some(vec![pattern]), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), None).is_ok()
    };
    for bad in ["{a,b}".repeat(MAX_ALTERNATIVES + 1), "x".repeat(MAX_PATTERN_BYTES + 1), "a/../*".into(), "a\0b".into()]
    {
        assert!(!compiles(bad.clone()), "{bad:?}");
    }
    assert!(compiles("{a,b}".repeat(MAX_ALTERNATIVES)) && compiles("x".repeat(MAX_PATTERN_BYTES)));
}

#[test]
fn hosts_match_by_whole_labels_and_ports_are_explicit() {
    let scope = hosts(&["GitHub.com", "*.example.org", "localhost:8080", "[::1]:9"]);
    for (scheme, host, port) in [
        ("https", "github.com", 443),
        ("http", "github.com", 80),
        ("https", "a.b.example.org", 443),
        ("http", "localhost", 8080),
    ] {
        assert!(scope.host(scheme, host, port), "{host}:{port}");
    }
    for (scheme, host, port) in [
        ("https", "github.com.evil.net", 443),
        ("https", "evilgithub.com", 443),
        ("https", "github.com", 8443),
        ("http", "github.com", 443),
        ("https", "example.org", 443),
        ("https", "evilexample.org", 443),
        ("http", "localhost", 80),
    ] {
        assert!(!scope.host(scheme, host, port), "{host}:{port}");
    }
    assert!(scope.names_address("::1".parse().unwrap(), 9));
    assert!(!scope.names_address("::1".parse().unwrap(), 10));
    assert!(!hosts(&["*"]).names_address("127.0.0.1".parse().unwrap(), 80));
}

#[test]
fn all_ports_of_a_host_are_written_as_a_star() {
    let scope = hosts(&["127.0.0.1:*", "localhost:*", "example.org:*", "[::1]:*"]);
    for (host, port) in [("127.0.0.1", 1), ("localhost", 65535), ("[::1]", 80)] {
        assert!(scope.host("tcp", host, port) && scope.names(host, port), "{host}:{port}");
    }
    assert!(scope.host("https", "example.org", 8443));
    for (host, port) in [("127.0.0.2", 1), ("a.example.org", 443), ("10.0.0.1", 80)] {
        assert!(!scope.host("https", host, port) && !scope.names(host, port), "{host}:{port}");
    }
    for bad in ["*:*", "a:1:*", ":*", "a:*:*", "a*:*", "a:*/", "u@a:*"] {
        let scope = Scope { hosts: Some(vec![bad.to_owned()]), ..Scope::default() };
        assert!(CompiledScope::compile(Some(&scope), &places(), None).is_err(), "{bad}");
    }
}

#[test]
fn an_address_and_localhost_are_named_with_their_port() {
    let scope = hosts(&["127.0.0.1:80", "[::1]:9", "localhost:8080", "*.localhost:1", "10.0.0.1"]);
    for (host, port) in [("127.0.0.1", 80), ("[::1]", 9), ("localhost", 8080)] {
        assert!(scope.names(host, port), "{host}:{port}");
    }
    for (host, port) in
        [("127.0.0.1", 81), ("127.0.0.2", 80), ("[::1]", 80), ("localhost", 80), ("localhost", 1), ("10.0.0.1", 80)]
    {
        assert!(!scope.names(host, port), "{host}:{port}");
    }
    assert!(!hosts(&["example.org:80"]).names("example.org", 80), "a name says nothing of where it leads");
    assert!(!hosts(&["other:8080"]).names("localhost", 8080));
    assert!(!CompiledScope::default().names("127.0.0.1", 80), "anywhere is not here");
}

#[test]
fn this_machine_and_its_networks_are_near() {
    for near in [
        "localhost",
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        assert!(is_near(near), "{near}");
    }
    for inside in ["[::ffff:7f00:1]", "[::ffff:10.0.0.1]", "127.0.0.1"] {
        assert!(is_near_inside(inside), "{inside}");
    }
    assert!(!is_near_inside("[::ffff:8.8.8.8]") && !is_near_inside("example.org"));
    for far in ["example.org", "localhost.example.org", "8.8.8.8", "172.32.0.1", "[2606:4700::1111]"] {
        assert!(!is_near(far), "{far}");
    }
}

#[test]
fn variable_names_are_exact() {
    let scope = Scope { env: Some(vec!["TOKEN".to_owned()]), ..Scope::default() };
    let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
    assert!(scope.env("TOKEN") && CompiledScope::default().env("TOKEN"));
    assert!(!scope.env("TOKEN2") && !scope.env("token") && !scope.env(""));
}

#[test]
fn a_program_in_a_writable_folder_is_named_with_its_path() {
    let commands = |commands: &[&str]| {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect();
        let scope = Scope { commands: Some(commands), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles")
    };
    let project = Path::new("/projects/app");
    let names = |scope: &CompiledScope, program: &str| scope.names_program(Path::new(program), project);
    let scope = commands(&["./run x", "bin/../tool", "/opt/t", "git"]);
    for named in ["/projects/app/run", "/projects/app/tool", "/opt/t"] {
        assert!(names(&scope, named), "{named}");
    }
    for other in ["/projects/app/git", "git", "/usr/bin/git", "/projects/app/bin/tool", "/run"] {
        assert!(!names(&scope, other), "{other}");
    }
    assert!(!names(&CompiledScope::default(), "/opt/t"));
}

#[test]
fn invalid_host_patterns_are_refused() {
    for bad in
        ["", "a@b", ":p@b", "a/b", "a?b", "a#b", "a b", "*.*.com", "ex*mple.com", "https://x", "a:99999", "a:80:80"]
    {
        let scope = Scope { hosts: Some(vec![bad.to_owned()]), ..Scope::default() };
        let error = CompiledScope::compile(Some(&scope), &places(), None).expect_err(bad).to_string();
        assert!(error.contains("expected a host name") && error.contains(bad), "{error}");
    }
}

#[test]
fn a_command_pattern_is_a_program_and_its_leading_arguments() {
    let scope = Scope { commands: Some(vec!["git status".into(), "/usr/bin/ls".into()]), ..Scope::default() };
    let scope = CompiledScope::compile(Some(&scope), &places(), None).unwrap();
    let covers = |command: &str, args: &[&str]| runs(&scope, command, args, Path::new("/anywhere"));
    assert!(covers("git", &["status", "--short"]));
    assert!(!covers("git", &["-c", "alias.status=!sh", "status"]));
    assert!(!covers("./git", &["status"]));
    assert!(covers("/usr/bin/ls", &[]));
    assert!(!covers("ls", &[]));
}

#[test]
fn a_relative_file_in_a_command_is_the_one_in_the_project() {
    let compile = |command: &str| {
        let scope = Scope { commands: Some(vec![command.to_owned()]), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), Some(Path::new("/projects/app/node_modules/own")))
            .expect("it compiles")
    };
    for (command, program, args) in [
        ("node build.js", "node", vec!["build.js", "x"]),
        ("./run.sh", "./run.sh", vec![]),
        ("./run.sh *", "./run.sh", vec!["x"]),
        ("find . -exec ./check.sh ;", "find", vec![".", "-exec", "./check.sh", ";"]),
    ] {
        let scope = compile(command);
        assert!(runs(&scope, program, &args, Path::new("/projects/app")), "{command}");
        for elsewhere in ["/projects/app/sub", "/projects/app/node_modules/own", "/data"] {
            assert!(!runs(&scope, program, &args, Path::new(elsewhere)), "{command} in {elsewhere}");
        }
    }
    for (command, program, args) in [
        ("node /opt/build.js", "node", vec!["/opt/build.js"]),
        ("/opt/run.sh", "/opt/run.sh", vec!["x"]),
        ("git", "git", vec!["status"]),
    ] {
        assert!(runs(&compile(command), program, &args, Path::new("/data")), "{command}");
    }
}

#[test]
fn a_tilde_in_a_command_is_the_home() {
    let compile = |command: &str| {
        let scope = Scope { commands: Some(vec![command.to_owned()]), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles")
    };
    let (scope, project) = (compile("~/.local/bin/tool"), places().project);
    assert!(runs(&scope, "/home/me/.local/bin/tool", &[], &project));
    assert!(!runs(&scope, "~/.local/bin/tool", &[], &project));
    assert!(scope.names_program(Path::new("/home/me/.local/bin/tool"), &project));
    assert!(runs(&compile("node ~/x.js"), "node", &["/home/me/x.js"], Path::new("/data")));
    assert_eq!(exact_command(&[], "~/x", &[]), None);
}

#[test]
fn a_stored_command_is_exact() {
    let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    for (command, given, more) in
        [("nice", vec![], vec!["sh"]), ("make", vec!["check"], vec!["check", "SHELL=/x"]), ("ls", vec![], vec!["-l"])]
    {
        let pattern = exact_command(&[], command, &args(&given)).expect("it can be written");
        let scope = Scope { commands: Some(vec![pattern]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
        let project = &places().project;
        assert!(runs(&scope, command, &given, project) && scope.means_command(command, &given), "{command}");
        assert!(!runs(&scope, command, &more, project), "{command}");
        assert!(!runs(&scope, command, &given, &project.join("sub")), "{command} elsewhere");
    }
    for (command, given) in [("a b", vec![]), ("git", vec!["*"]), ("git", vec![""]), ("git", vec!["\"\""])] {
        assert_eq!(exact_command(&[], command, &args(&given)), None, "{command} {given:?}");
    }
}

#[test]
fn a_bare_name_covers_plain_uses_and_a_star_covers_all() {
    let commands = |patterns: &[&str]| {
        let commands = Some(patterns.iter().map(|pattern| (*pattern).to_owned()).collect());
        let scope = Scope { commands, ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), None).unwrap()
    };
    let run = ["-c", "alias.x=!sh", "x"];
    let covers = |patterns: &[&str], command: &str, args: &[&str]| {
        runs(&commands(patterns), command, args, Path::new("/anywhere"))
    };
    assert!(covers(&["git"], "git", &["status"]));
    assert!(!covers(&["git"], "git", &run));
    assert!(covers(&["git *"], "git", &run));
    assert!(runs(&commands(&["git -c alias.x=!sh x"]), "git", &run, Path::new("/projects/app")));
    assert!(!covers(&["git -c alias.x=!sh"], "git", &run), "nothing is known about what follows");
    assert!(!covers(&["git fetch"], "git", &["fetch", "--upload-pack=sh"]));
    assert!(covers(&["bash"], "bash", &["-c", "ls"]), "an interpreter is meant to run things");
    assert!(!covers(&["", " "], "", &[]));
    assert!(!covers(&["bash run.sh"], "bash", &["run.sh"]) && !covers(&["cargo"], "cargo", &["metadata"]));
    let script = commands(&["bash run.sh", "cargo metadata", "cargo"]);
    for (folder, is_here) in [("/projects/app", true), ("/projects/app/sub", false)] {
        let folder = Path::new(folder);
        assert_eq!(runs(&script, "bash", &["run.sh"], folder), is_here);
        assert!(runs(&script, "cargo", &["metadata"], folder) && !runs(&script, "cargo", &["tree"], folder));
    }
    assert!(commands(&["git *"]).means_command("git", &run) && !commands(&["git"]).means_command("git", &["status"]));
    let (here, there) = (Path::new("/projects/app"), Path::new("/projects/app/sub"));
    let exactly = CompiledScope::exactly_program("git", &run, Some(there), &ProgramContext::default());
    assert!(runs(&exactly, "git", &run, there) && !runs(&exactly, "git", &run, here));
    assert!(!runs(&exactly, "git", &run[..2], there) && !runs(&exactly, "git", &[], there));
    assert!(commands(&["git *"]).covers_every_use("git", &run) && !exactly.covers_every_use("git", &run));
    for other in [("A=b", vec!["sh".to_owned()]), ("PI_*=*", Vec::new())] {
        assert_eq!(exact_command(&[], other.0, &other.1), None, "a program that looks like a variable");
    }
}

fn runs(scope: &CompiledScope, program: &str, args: &[&str], folder: &Path) -> bool {
    scope.command(&Command { program, args, folder, given: &ProgramContext::default() })
}

#[test]
fn a_grant_of_the_home_names_none_of_its_settings() {
    let names = |pattern: &str, path: &str| {
        let scope = Scope { paths: Some(vec![pattern.to_owned()]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
        let places = places();
        let settings = places.settings_around(Path::new(path)).expect("it is among settings");
        scope.names_settings(Path::new(path), settings)
    };
    for (pattern, path) in [
        ("~/.config/x/**", "/home/me/.config/x/a"),
        ("~/.config", "/home/me/.config"),
        ("~/.config/x*/a", "/home/me/.config/x/a"),
        ("~/.hgrc", "/home/me/.hgrc"),
        ("~/.kept/*/a", "/home/me/.kept/x/a"),
        ("~/.*/**", "/home/me/.kept/x/a"),
        ("~/.local/share/x/**", "/home/me/.local/share/x/a"),
        ("~/.local/bin/**", "/home/me/.local/bin/a"),
        ("/home/me/bin/**", "/home/me/bin/a"),
    ] {
        assert!(names(pattern, path), "{pattern} {path}");
    }
    for (pattern, path) in [
        ("~/**", "/home/me/.config/x/a"),
        ("~/.config", "/home/me/.config/x/a"),
        ("~/.config/*/a", "/home/me/.config/x/a"),
        ("~/.*/**", "/home/me/.config/x/a"),
        ("~/.cache/**", "/home/me/.cache/x/a"),
        ("~/.local/share/**", "/home/me/.local/share/x/a"),
        ("~/.local/**", "/home/me/.local/bin/a"),
        ("~/*/x/a", "/home/me/.config/x/a"),
        ("~/{.config,y}/x/a", "/home/me/.config/x/a"),
        ("/home/**", "/home/me/.hgrc"),
        ("/**", "/home/me/bin/a"),
        ("/**/.hgrc", "/home/me/.hgrc"),
        ("~/.config/y/**", "/home/me/.config/x/a"),
        ("~/**", "/home/me/Library/LaunchAgents/a.plist"),
    ] {
        assert!(!names(pattern, path), "{pattern} {path}");
    }
    assert!(!places().is_in_settings(Path::new("/home/me/notes/.hidden")));
    assert!(!places().is_in_settings(Path::new("/home/me")));
    let begun_there = Places::new("/home/me/.dotfiles", "/home/me", "/home/me/.pi/agent", "/tmp");
    assert!(!begun_there.is_in_settings(Path::new("/home/me/.dotfiles/a")));
    assert!(begun_there.is_in_settings(Path::new("/home/me/.config/a")));
}

#[test]
fn input_that_is_executed_is_not_a_plain_use() {
    let covers = |pattern: &str, program: &str, args: &[&str]| {
        let scope = Scope { commands: Some(vec![pattern.to_owned()]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
        let given = ProgramContext { input: Input::program(b"x"), ..ProgramContext::default() };
        scope.command(&Command { program, args, folder: &places().project, given: &given })
    };
    assert!(!covers("python3", "python3", &["-W", "ignore"]) && !covers("sh run.sh", "sh", &["run.sh"]));
    assert!(!covers("python3 a.py \"\"", "python3", &["a.py"]));
    assert!(!covers("newgrp", "newgrp", &[]), "a program that is in no table, but starts a shell");
    for (pattern, program) in [("sh", "sh"), ("python3 *", "python3")] {
        assert!(covers(pattern, program, &["x"]), "{pattern}");
    }
}

#[test]
fn a_pattern_covers_the_variables_it_names() {
    let covers = |pattern: &str, variables: &[(&str, &str)]| {
        let scope = Scope { commands: Some(vec![pattern.to_owned()]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
        let variables = variables.iter().map(|(name, value)| Variable::new("make", name, value)).collect();
        let given = ProgramContext { variables, ..ProgramContext::default() };
        scope.command(&Command { program: "make", args: &["clean"], folder: &places().project, given: &given })
    };
    let rm = [("RM", "echo")];
    for pattern in ["RM=* make", "RM=echo make clean \"\"", "R*=* make clean", "*=* make", "make *", "make clean *"] {
        assert!(covers(pattern, &rm), "{pattern}");
    }
    for pattern in ["make", "make clean", "make clean \"\"", "RM=rm make", "PATH=* make", "X*=* make"] {
        assert!(!covers(pattern, &rm), "{pattern}");
    }
    let harmless = [("LC_ALL", "C"), ("CI", "true"), ("COLUMNS", "80"), ("TZ", "Europe/Berlin"), ("NO_COLOR", "")];
    assert!(covers("make clean \"\"", &harmless), "harmless");
    for odd in [("CI", "1; id"), ("COLUMNS", "x"), ("TZ", "/etc/x"), ("TERM", "../x"), ("NODE_ENV", "$(id)")] {
        assert!(!covers("make", &[odd]), "{odd:?}");
    }
    let preload = [("LD_PRELOAD", "x.so")];
    for pattern in ["make", "make *", "*=* make", "LD_*=* make *"] {
        assert!(!covers(pattern, &preload), "{pattern}");
    }
    assert!(covers("LD_PRELOAD=* make", &preload));
    assert!(!covers("DRY=1 make clean \"\"", &[]), "a value that is written down is part of the command");
    assert!(covers("DRY=1 make", &[("DRY", "1")]) && !covers("DRY=1 make", &[("DRY", "2")]));
    assert!(covers("make", &[("RM", "")]), "left out");
}

#[test]
fn an_answer_applies_to_the_same_variables_and_input() {
    let given =
        |variables: Vec<Variable<'static>>, input| ProgramContext { variables, input, ..ProgramContext::default() };
    let token = Variable::new("sh", "MY_TOKEN", "abc def");
    let asked = given(vec![token], Input::program(b"id"));
    let exactly = CompiledScope::exactly_program("sh", &[], None, &asked);
    let covers = |given: &ProgramContext<'_>| {
        exactly.command(&Command { program: "sh", args: &[], folder: Path::new("/x"), given })
    };
    assert!(covers(&asked));
    assert!(!covers(&given(vec![token], Input::program(b"id;"))) && !covers(&given(vec![token], Input::Later)));
    assert!(!covers(&given(vec![], Input::program(b"id"))), "without the variable");
    let other = Variable::new("sh", "MY_TOKEN", "abc");
    assert!(!covers(&given(vec![other], Input::program(b"id"))));
    let without = CompiledScope::exactly_program("sh", &[], None, &given(vec![], Input::program(b"")));
    let unknown = given(vec![], Input::UNKNOWN);
    assert!(!without.command(&Command { program: "sh", args: &[], folder: Path::new("/x"), given: &unknown }));
    let kept = exact_command(&[("MY_TOKEN".to_owned(), token.kept_value())], "sh", &[]).expect("a digest");
    assert!(kept.starts_with("MY_TOKEN=sha256:") && kept.ends_with(" sh \"\""), "{kept}");
}

#[test]
fn a_grant_covers_one_tool_of_a_server_or_all_of_them() {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let of = |tools: &[&str]| {
        let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
        CompiledScope::compile(Some(&Scope { tools, ..Scope::default() }), &places, None).expect("compiles")
    };
    let one = of(&["files/read"]);
    assert!(one.mcp("files/read") && !one.mcp("files/write") && !one.mcp("files/read2") && !one.mcp("other/read"));
    let all = of(&["files/*"]);
    assert!(all.mcp("files/read") && all.mcp("files/@resources") && !all.mcp("files2/read") && !all.mcp("file"));
    assert!(!of(&["*"]).mcp("files/read"), "a star stands for tools, not for servers");
    assert!(!of(&[]).mcp("files/read") && CompiledScope::default().mcp("files/read"));
}

#[test]
fn a_grant_of_a_tool_covers_only_that_tool() {
    let scope = CompiledScope::exactly_tool("weather");
    assert!(scope.tool("weather") && !scope.tool("deploy") && CompiledScope::default().tool("deploy"));
}
