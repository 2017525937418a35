//! Tests of loading: factories, their registrations, and their failures.

use crate::lab::Lab;
use pijs_host::{Event, ReportKind};

#[test]
fn what_an_async_factory_registers_is_listed_in_order() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        let tools = lab.host.tools();
        assert_eq!(tools.len(), 1);
        let greet = &tools[0].spec;
        assert_eq!((greet.name.as_str(), greet.label.as_deref()), ("greet", Some("Greet")));
        assert_eq!(greet.parameters.as_ref().expect("a schema")["properties"]["name"]["type"], "string");
        let functions: Vec<&str> = greet.functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(functions, ["execute", "renderCall"]);
        assert_eq!(greet.other_keys, ["extra"]);
        let commands: Vec<String> = lab.host.commands().into_iter().map(|command| command.invocation).collect();
        assert_eq!(commands, ["hi", "bad"]);
        assert!(lab.host.has_handlers("input") && !lab.host.has_handlers("context"));
        assert_eq!(lab.ledger_lines("extension.ready").len(), 1);
    });
}

#[test]
fn packages_of_realms_in_the_thread_are_loaded_one_after_the_other() {
    let lab = Lab::new();
    let waits = r#"export default async (pi: any) => { await pi.exec("first", []); console.log("first"); };"#;
    let is_quick = r#"export default async (pi: any) => { console.log("second"); };"#;
    let reports = lab.run(lab.load_all(&[("waits", waits), ("is-quick", is_quick)]));
    assert!(reports.iter().all(Result::is_ok), "{reports:?}");
    assert_eq!(lab.logs(), ["first", "second"]);
}

#[test]
fn a_factory_that_throws_is_reported_with_its_source_position() {
    let lab = Lab::new();
    lab.run(async {
        let report = lab.try_load(&["factory-throws", "handlers-b"]).await.expect("the package stays");
        let failures: Vec<_> = report.failures().collect();
        let [(path, error)] = failures.as_slice() else { panic!("one entry fails: {failures:?}") };
        assert_eq!((*path, error.message.as_str()), ("factory-throws/index.ts", "Failed to load extension: boom"));
        let place = error.position.as_ref().expect("a position in the source");
        assert_eq!((place.file.as_str(), place.line), ("factory-throws/index.ts", 7), "{:?}", error.stack);

        // The failed entry's registrations are gone, and the other entry is alive.
        assert!(!lab.host.has_stream_handler(pijs_protocol::StreamSource::Text));
        let outcome = lab.host.emit(Event::new("input").with("text", "x")).await;
        assert_eq!(outcome.answer_field("text").expect("handlers-b answers"), "x b");
        assert!(lab.logs().is_empty());
    });
}

#[test]
fn a_default_export_that_is_not_a_function_is_refused_with_the_message_of_pi() {
    let lab = Lab::new();
    lab.run(async {
        for name in ["default-object", "named-only"] {
            let report = lab.try_load(&[name]).await.expect("the package stays");
            let message = report.failures().next().map(|(_, error)| error.message.clone());
            let wanted = format!("Extension does not export a valid factory function: {name}/index.ts");
            assert_eq!(message, Some(wanted));
        }
    });
}

#[test]
fn actions_while_loading_throw() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["acts-while-loading"]).await;
        let words = "Extension runtime not initialized. Action methods cannot be called during extension loading.";
        assert_eq!(lab.logs(), [words, words, "Extension runtime not initialized"]);
    });
}

#[test]
fn the_first_registration_keeps_a_name() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        let report = lab.try_load(&["registers-too"]).await.expect("the session is open");
        assert_eq!(
            report.conflicts,
            ["Tool \"greet\" conflicts with registers/index.ts", "Flag \"--deep\" conflicts with registers/index.ts"]
        );
        assert_eq!(lab.host.tools().len(), 1);
        assert_eq!(lab.host.tools()[0].owner.path, "registers/index.ts");
        let invocations: Vec<String> = lab.host.commands().into_iter().map(|command| command.invocation).collect();
        assert_eq!(invocations, ["hi:1", "bad", "hi:2"]);
        let flag = lab.host.flags().into_iter().next().expect("a flag");
        assert_eq!(flag.value, Some(false.into()), "the first default counts");
        let warned = lab
            .reported()
            .into_iter()
            .any(|report| matches!(&report.kind, ReportKind::Warning { message } if message.contains("\"nonsense\"")));
        assert!(warned, "an event that never fires: {:?}", lab.complaints());
    });
}

#[test]
fn a_flag_is_seen_by_the_extension_that_registered_it() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        lab.host.set_flag("deep", true);
        lab.host.set_flag("other", "x");
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        assert_eq!(lab.logs(), ["deep=true other=undefined"]);
    });
}

#[test]
fn a_package_is_loaded_once() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        let again = lab.try_load(&["registers"]).await;
        assert_eq!(again.expect_err("it is there").to_string(), "path:registers is loaded already");
    });
}
