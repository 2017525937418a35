//! Tests of the source text that an extension sees, in errors that it catches and of its functions.

use crate::lab::{JumpingTimer, Lab, package_of};
use pijs_environment::simulated::VirtualClock;
use pijs_host::SourceExcerpts;
use pijs_hostcall::{
    Caller, Dispatcher, Gate, Ledger, LedgerOptions, MemorySink, Mode, ParsedCall, Places, Policy, Profile,
};
use pijs_protocol::HostCall;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the logs of two packages with different text in one module at equal positions.
fn logged_by_two(source: impl Fn(&str) -> String) -> Vec<String> {
    let lab = Lab::new();
    lab.run(async {
        for name in ["first", "other"] {
            let package = package_of(name, &[("same/index.ts".to_owned(), source(name))]);
            lab.host.load(package).await.expect("the package loads");
        }
    });
    lab.logs()
}

#[test]
fn each_package_is_quoted_from_its_own_text() {
    let logged = logged_by_two(|name| {
        format!(
            "export default function () {{\n  const {name}: any = {{}};\n  try {{\n    {name}.run();\n  \
             }} catch (error) {{\n    console.log((error as Error).message);\n  }}\n}}\n"
        )
    });
    assert_eq!(logged, ["first.run is not a function", "other.run is not a function"]);
}

#[test]
fn each_package_sees_the_text_of_its_own_functions() {
    let logged = logged_by_two(|name| {
        format!(
            "const run = (é: string) => `{name} ${{é}}`;\nexport default () => {{\n  console.log(String(run));\n  \
             console.log(String(Math.max));\n}};\n"
        )
    });
    let built_in = "function max() { [native code] }";
    assert_eq!(logged, ["(é)=>`first ${é}`", built_in, "(é)=>`other ${é}`", built_in]);
}

#[test]
fn the_search_for_functions_of_a_package_is_limited() {
    let lab = Lab::new();
    lab.run(async {
        // Three modules of a bit less than 2 MB each: the third exceeds the limit.
        let filler = "x".repeat((2 << 20) - 200);
        let files: Vec<(String, String)> = (1..=3)
            .map(|number| {
                let source = format!("const text = `{filler}`;\nconst run = () => text.length;\nexport default () => console.log(String(run));\n");
                (format!("{number}/index.ts"), source)
            })
            .collect();
        lab.host.load(package_of("large", &files)).await.expect("the package loads");
    });
    assert_eq!(lab.logs(), ["()=>text.length", "()=>text.length", "function run() { [native code] }"]);
}

#[test]
fn a_request_without_a_position_is_refused() {
    let gate = Gate::builder(
        Policy { mode: Mode::Permissive, ..Policy::default() },
        Places::new("/project", "/home", "/home/.pi/agent", "/tmp"),
    );
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let timer = Arc::new(JumpingTimer::new(Arc::new(VirtualClock::starting_at(0))));
    let dispatcher =
        Dispatcher::builder(gate.build(), ledger, timer).connector("module", Arc::new(SourceExcerpts::default()));
    let dispatcher = dispatcher.build();
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let complete = json!({ "op": "quote", "message": "not a function", "module": "a.js", "line": 1, "column": 2 });
    let asked = |params: &Value| {
        let params = params.as_object().expect("an object").clone();
        let parsed = ParsedCall::parse("module", params.clone(), Vec::new()).expect("a call that makes sense");
        let call = HostCall {
            call_id: "host-1".into(),
            capability: parsed.required().expect("a call that makes sense").capability(),
            method: "module".into(),
            params,
            timeout_ms: None,
            cancel_token: None,
            context: None,
            bytes: Vec::new(),
        };
        let result = dispatcher.call_sync(&caller, call);
        result.error.map_or(result.output, |error| error.details["reason"].clone())
    };
    assert_eq!(asked(&complete), json!({ "message": null }));
    let mut source = complete.clone();
    source["op"] = json!("source");
    assert_eq!(asked(&source), json!({ "text": null }));
    for (of, names) in
        [(&complete, &["message", "module", "line", "column"][..]), (&source, &["module", "line", "column"])]
    {
        for name in names {
            for wrong in [json!(null), json!({}), json!(-1), json!(1.5), json!(1_u64 << 32)] {
                let mut params = of.clone();
                params[name] = wrong;
                assert_eq!(asked(&params), "schema", "{params}");
            }
        }
    }
}
