//! Tests of packages that load concurrently: their order, and the effects that users and other extensions see.

use crate::lab::Lab;
use pijs_host::{Event, HostOptions, InProcess, InThread, LoadError, LoadReport, OpenRealm, Package};
use pijs_protocol::{ExtensionId, Termination};
use pijs_realm::ProcessOptions;
use serde_json::Value;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_waiting_package_does_not_delay_later_ones", a_waiting_package_does_not_delay_later_ones),
    ("a_package_that_never_ends_its_load_is_left_out_alone", a_package_that_never_ends_its_load_is_left_out_alone),
    (
        "a_package_that_ends_ahead_of_its_turn_is_left_out_alone",
        a_package_that_ends_ahead_of_its_turn_is_left_out_alone,
    ),
    ("concurrent_loads_have_the_effects_of_sequential_ones", concurrent_loads_have_the_effects_of_sequential_ones),
    ("still_loading_lists_packages_without_an_answer", still_loading_lists_packages_without_an_answer),
    ("nothing_is_waited_for_once_the_start_is_given_up", nothing_is_waited_for_once_the_start_is_given_up),
    ("a_reload_does_not_wait_for_earlier_packages", a_reload_does_not_wait_for_earlier_packages),
    ("an_earlier_version_keeps_its_turn_in_a_reload", an_earlier_version_keeps_its_turn_in_a_reload),
];

fn lab(realms: impl OpenRealm + 'static) -> Lab {
    Lab::over(HostOptions::default(), &["exec"], realms)
}

fn processes() -> Lab {
    lab(InProcess::new(ProcessOptions::default()))
}

/// Source of a package that runs a program before it claims names and logs.
const SLOW: &str = r#"
export default async function (pi: any) {
  pi.events.on("news", (from: string) => console.log(`slow hears ${from}`));
  await new Promise((resolve) => setTimeout(resolve, 50));
  await pi.exec("slow", []);
  pi.registerTool({ name: "greet", parameters: {}, execute: () => ({ content: [] }) });
  pi.registerFlag("deep", { type: "boolean", default: false });
  pi.registerCommand("hi", { handler: () => {} });
  console.log("slow is there");
  pi.events.emit("news", "slow");
}
"#;

/// Source of a package that logs, then claims the same names at once.
const QUICK: &str = r#"
export default async function (pi: any) {
  pi.events.on("news", (from: string) => console.log(`quick hears ${from}`));
  await pi.exec("quick", []);
  pi.registerTool({ name: "greet", parameters: {}, execute: () => ({ content: [] }) });
  pi.registerFlag("deep", { type: "boolean", default: true });
  pi.registerCommand("hi", { handler: () => {} });
  pi.on("nonsense", () => {});
  console.log("quick is there");
  pi.events.emit("news", "quick");
}
"#;

/// Source of a package that logs and then fails.
const FAILS: &str = r#"
export default async function (pi: any) {
  console.log("fails soon");
  await null;
  pi.registerTool({ name: "void", parameters: {}, execute: () => ({ content: [] }) });
  throw new Error("boom");
}
"#;

const NEVER: &str = "export default () => new Promise(() => {});";

/// Source of a package that logs in one turn and computes forever in another.
const ENDLESS: &str = r#"
export default async function (pi: any) {
  console.log("begins to compute");
  await pi.exec("anything", []);
  for (;;);
}
"#;

/// Returns the source of a package like [`SLOW`] that waits until this program was called.
fn slow_behind(program: &str) -> String {
    let timer = "new Promise((resolve) => setTimeout(resolve, 50))";
    assert!(SLOW.contains(timer));
    SLOW.replace(timer, &format!("pi.exec(\"behind {program}\", [])"))
}

fn commands_of_programs(lab: &Lab) -> Vec<String> {
    let calls = lab.calls.lock().expect("no test panics here");
    calls
        .iter()
        .filter_map(|call| call.strip_prefix("exec "))
        .filter_map(|params| serde_json::from_str::<Value>(params).ok()?["command"].as_str().map(str::to_owned))
        .filter(|command| !command.starts_with("behind "))
        .collect()
}

fn a_waiting_package_does_not_delay_later_ones() {
    let lab = processes();
    let slow = slow_behind("quick");
    let reports = lab.run(lab.load_all(&[("slow", &slow), ("quick", QUICK)]));
    assert!(reports.iter().all(Result::is_ok), "{reports:?}");
    assert_eq!(commands_of_programs(&lab), ["quick", "slow"]);
    assert_eq!(lab.host.tools()[0].owner.path, "slow/index.ts");
}

fn a_package_that_never_ends_its_load_is_left_out_alone() {
    let lab = processes();
    let reports = lab.run(lab.load_all(&[("first", QUICK), ("never", NEVER), ("last", QUICK)]));
    assert!(reports[0].is_ok() && reports[2].is_ok(), "{reports:?}");
    assert!(
        matches!(&reports[1], Err(LoadError::Ended { reason: Termination::Timeout { quota }, .. }) if quota == Termination::UNSETTLED),
        "{:?}",
        reports[1]
    );
    assert_eq!(lab.host.packages().len(), 3, "it is known, and takes no part");
    let owners: Vec<String> = lab.host.commands().into_iter().map(|command| command.owner.path).collect();
    assert_eq!(owners, ["first/index.ts", "last/index.ts"]);
}

fn a_package_that_ends_ahead_of_its_turn_is_left_out_alone() {
    let lab = processes();
    let reports = lab.run(lab.load_all(&[("slow", SLOW), ("endless", ENDLESS), ("quick", QUICK)]));
    assert!(reports[0].is_ok() && reports[2].is_ok(), "{reports:?}");
    assert!(matches!(&reports[1], Err(LoadError::Ended { .. })), "{:?}", reports[1]);
    assert!(lab.logs().contains(&"begins to compute".to_owned()), "what it said is kept: {:?}", lab.logs());
}

/// All effects of a start that users and other extensions see.
#[derive(Debug, PartialEq)]
struct Seen {
    answers: Vec<String>,
    registrations: Vec<String>,
    ledger: Vec<String>,
    reported: Vec<String>,
    heard: Vec<String>,
    flags: Vec<Option<Value>>,
}

fn seen(lab: &Lab, reports: &[Result<LoadReport, LoadError>]) -> Seen {
    let of_load = |line: &Value| {
        let event = line["event"].as_str().filter(|event| event.starts_with("extension."))?;
        let (kind, name, path) = (&line["data"]["kind"], &line["data"]["name"], &line["data"]["path"]);
        ["extension.register", "extension.ready", "extension.error"]
            .contains(&event)
            .then(|| format!("{event} {kind} {name} {path}"))
    };
    let reported = lab.reported().into_iter().map(|report| report.to_string());
    // Extensions receive events concurrently, each in its own order.
    let (mut heard, reported): (Vec<String>, Vec<String>) = reported.partition(|line| line.contains(" hears "));
    heard.sort_by(|one, other| one.split(' ').next().cmp(&other.split(' ').next()));
    Seen {
        answers: reports.iter().map(|report| format!("{report:?}")).collect(),
        registrations: lab.host.registrations().iter().map(|registered| format!("{registered:?}")).collect(),
        ledger: lab.ledger.lines().iter().filter_map(of_load).collect(),
        reported,
        heard,
        flags: lab.host.flags().into_iter().map(|flag| flag.value).collect(),
    }
}

fn concurrent_loads_have_the_effects_of_sequential_ones() {
    let sources = [("quick", QUICK), ("slow", SLOW), ("fails", FAILS), ("quick-too", QUICK), ("quick", QUICK)];
    let start = |lab: Lab| {
        let reports = lab.run(async {
            let reports = lab.load_all(&sources).await;
            lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
            lab.host.at_rest().await;
            reports
        });
        seen(&lab, &reports)
    };
    let alone = start(lab(InThread));
    assert!(matches!(alone.answers.last(), Some(last) if last.contains("Duplicate")), "{:?}", alone.answers);
    for _ in 0..5 {
        assert_eq!(start(processes()), alone);
    }
}

fn still_loading_lists_packages_without_an_answer() {
    let lab = processes();
    let mut states: Vec<Vec<String>> = Vec::new();
    lab.run(async {
        let slow = slow_behind("release");
        let packages = [("quick", QUICK), ("slow", &slow), ("quick-too", QUICK)];
        let mut load = pin!(lab.load_all(&packages));
        poll_fn(|context| {
            let loaded = load.as_mut().poll(context);
            let left: Vec<String> = lab.host.still_loading().iter().map(ToString::to_string).collect();
            if left == ["path:slow"] {
                lab.calls.lock().expect("no test panics here").push(r#"exec {"command":"release"}"#.to_owned());
            }
            if states.last() != Some(&left) {
                states.push(left);
            }
            loaded
        })
        .await
    });
    assert!(states.contains(&vec!["path:slow".to_owned()]), "{states:?}");
    assert_eq!(states.last(), Some(&Vec::new()));
}

fn nothing_is_waited_for_once_the_start_is_given_up() {
    let lab = processes();
    let packages = [("fails", FAILS), ("never", NEVER)]
        .map(|(id, source)| lab.granted(crate::lab::package_of(id, &[(format!("{id}/index.ts"), source.to_owned())])));
    let mut taken = 0;
    lab.run(lab.host.load_all(packages.into(), |report| {
        taken += 1;
        assert_eq!(report.expect("the package stays").failures().count(), 1);
        ControlFlow::Break(())
    }));
    assert_eq!(taken, 1);
}

fn a_reload_does_not_wait_for_earlier_packages() {
    let lab = processes();
    lab.run(async {
        let slow = slow_behind("quick");
        lab.load_all(&[("slow", &slow), ("quick", QUICK)]).await;
        lab.calls.lock().expect("no test panics here").clear();
        let reports = lab.host.reload(None).await;
        assert!(reports.iter().all(Result::is_ok), "{reports:?}");
    });
    assert_eq!(commands_of_programs(&lab), ["quick", "slow"]);
    assert_eq!(lab.host.tools()[0].owner.path, "slow/index.ts");
}

/// Creates one version of a package of the lab.
fn version(lab: &Lab, id: &str, version: &str, source: &str) -> Package {
    let mut package = crate::lab::package_of(id, &[(format!("{id}/index.ts"), source.to_owned())]);
    package.profile.artifact_id = Some(version.to_owned());
    lab.granted(package)
}

/// Reloads two packages, of which the first one now fails, and returns the visible effects.
fn reload_of_one_that_fails(lab: &Lab) -> (Vec<String>, Vec<String>, Vec<String>) {
    let given_back = RefCell::new(Vec::new());
    let again = lab.run(async {
        for source in [version(lab, "first", "1", QUICK), version(lab, "last", "1", SLOW)] {
            lab.host.load(source).await.expect("the package loads");
        }
        let packages = vec![version(lab, "first", "2", FAILS), version(lab, "last", "2", SLOW)];
        let take_back = |id: &ExtensionId| given_back.borrow_mut().push(format!("{id}"));
        lab.host.reload_or_keep(packages, &take_back).await
    });
    let answers = again.iter().map(|again| format!("{:?} {}", again.loaded, again.stays)).collect();
    let tools = lab.host.tools().into_iter().map(|tool| tool.owner.path);
    let commands = lab.host.commands().into_iter().map(|command| command.owner.path);
    (answers, tools.chain(commands).collect(), given_back.into_inner())
}

fn an_earlier_version_keeps_its_turn_in_a_reload() {
    let one_by_one = reload_of_one_that_fails(&lab(InThread));
    let (answers, owners, given_back) = &one_by_one;
    assert!(answers[0].ends_with("true") && answers[1].ends_with("false"), "{answers:?}");
    assert_eq!(*owners, ["first/index.ts", "first/index.ts", "last/index.ts"]);
    assert_eq!(*given_back, ["path:first"]);
    assert_eq!(reload_of_one_that_fails(&processes()), one_by_one);
}
