//! Runs plugins that follow the guide of rummy 2.x unchanged; each test names the section that it checks.

use pijs_dialect_rummy::Writer;
use pijs_environment::Ambient;
use pijs_rummy::{CallPath, EntryConnector, PluginRealm, PluginSet, RealmOptions, RummyError};
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{Environment, Interface, Isolation, Notices};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::rc::Rc;

const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rummy/plugins");

/// Creates a store with a run.
fn store(profile: &str) -> EntryConnector {
    let entries = EntryConnector::open(None, profile, 2, Ambient::system()).expect("a store");
    let made = entries.with(|store| {
        let project = store.upsert_project("demo", None, None)?;
        store.create_run(project, "test", None, None)
    });
    assert_eq!(made.expect("made"), 1);
    entries
}

/// Opens the realm of a plugin folder in a temporary environment, and runs a test in it.
fn in_realm(folder: &Path, adapt: impl FnOnce(&mut RealmOptions), test: impl AsyncFnOnce(Rc<PluginRealm>)) {
    with_plugins(PluginSet::default().folder(folder).expect("read"), adapt, test);
}

/// Opens the realm of any plugins, like [`in_realm`].
fn with_plugins(plugins: PluginSet, adapt: impl FnOnce(&mut RealmOptions), test: impl AsyncFnOnce(Rc<PluginRealm>)) {
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut options = RealmOptions::new(base.path().join("stage"));
        options.session.isolation = Isolation::Thread;
        options.bundled = false;
        adapt(&mut options);
        let entries = store(&options.profile);
        let realm = PluginRealm::open(&environment, &plugins, entries, Interface::default(), options).await;
        let realm = Rc::new(realm.unwrap_or_else(|error| panic!("{error}")));
        realm.run(test(Rc::clone(&realm))).await;
        Rc::into_inner(realm).expect("nobody else holds it").close();
    });
}

fn in_fixtures(test: impl AsyncFnOnce(Rc<PluginRealm>)) {
    in_realm(
        Path::new(PLUGINS),
        |_| {},
        async |realm| {
            realm.initialise().await.expect("the store takes all schemes");
            test(realm).await;
        },
    );
}

/// Returns an entry of the store as JSON.
fn stored(realm: &PluginRealm, path: &str) -> Value {
    let args = json!([1, path]);
    let get = |method| realm.entries().with(|store| store.entries(method, &args, Writer::System)).expect("read");
    json!({ "body": get("getBody"), "attributes": get("getAttributes") })
}

/// Follows rummy's plugin guide, "Plugin Contract" and "Loading": order and forms of plugins, and the files that are skipped.
#[test]
fn plugins_load_in_sorted_order_and_one_that_fails_is_passed_over() {
    in_fixtures(async |realm| {
        let loaded = realm.loaded().await.expect("asked");
        let kinds: Vec<(&str, &str)> = loaded.plugins.iter().map(|plugin| (&*plugin.name, &*plugin.kind)).collect();
        let expected = [
            ("approval", "class"),
            ("broken", "failed"),
            ("clock", "register"),
            ("greet", "class"),
            ("guard", "class"),
            ("herald", "class"),
            ("journal", "class"),
            ("noisy", "class"),
            ("remote", "class"),
            ("speaker", "class"),
            ("words", "class"),
        ];
        assert_eq!(kinds, expected);
        let error = loaded.plugins[1].error.as_deref().unwrap_or_default();
        assert!(error.contains("nonsense") && error.contains("data, logging, unknown, prompt"), "{error}");
        assert_eq!(loaded.plugins[6].schemes, ["journal", "page"]);
        assert_eq!(loaded.tools, ["greet"]);
        assert!(!loaded.hooks.contains_key("no.such.event"), "an unknown name does nothing");
    });
}

/// Follows rummy's plugin guide, "handler(entry, rummy)" and "Four Writer Tiers" of rummy's specification: a handler's writes
/// count as the model's, and all handlers share one entry object.
#[test]
fn a_handler_writes_where_its_entry_says_as_the_model() {
    in_fixtures(async |realm| {
        let rummy = realm.context("turn1", json!({ "runId": 1, "sequence": 1 }), CallPath::Model).await.expect("made");
        let entry = json!({
            "scheme": "greet", "path": "greet://you", "body": "", "attributes": { "path": "you" },
            "resultPath": "log://turn_1/greet/you",
        });
        let shared = rummy.shared("entry1", entry);
        let after = realm.dispatch("greet", shared, &rummy).await.expect("dispatched");
        assert_eq!(after.entry["greeted"], true);
        assert_eq!(stored(&realm, "log://turn_1/greet/you")["body"], "hello you, from greet");
        assert_eq!(realm.dispatch("nobody", json!({}), &rummy).await.expect("no error").entry, json!({}));
        let views = realm
            .deliver("view", json!({ "rows": [{ "scheme": "greet", "body": "b", "attributes": { "tags": "t" } }] }));
        assert_eq!(views.await.expect("shown").value, json!([["# greet\nb", "t"]]));
        rummy.close().await.expect("closed");
    });
}

/// Follows rummy's plugin guide, "Entry Events" and "Filter Priority Bands".
#[test]
fn filters_thread_a_value_in_ascending_priority() {
    in_fixtures(async |realm| {
        let entry = json!({ "scheme": "set", "path": "a.txt", "state": "resolved" });
        let recorded = |mode: &str| realm.filter("entry.recording", entry.clone(), vec![json!({ "mode": mode })]);
        let act = recorded("act").await.expect("filtered");
        assert_eq!((&act["seen"], &act["state"]), (&json!(["check", "seal"]), &json!("resolved")));
        let ask = recorded("ask").await.expect("filtered");
        assert_eq!((&ask["state"], &ask["outcome"]), (&json!("failed"), &json!("permission")));
        let ctx = json!({ "rows": [{ "body": "quiet" }, { "body": "loud!" }], "toolSet": { "$set": ["get", "set"] } });
        let user = realm.filter("assembly.user", "".into(), vec![ctx]).await.expect("filtered");
        assert_eq!(user, "<first/>\n<loud count=\"1\" tools=\"get,set\"/>");
        let docs = realm.filter("instructions.toolDocs", json!({}), vec![]).await.expect("filtered");
        assert!(docs["greet"].as_str().is_some_and(|text| text.starts_with("## greet")), "{docs}");
    });
}

/// Follows rummy's plugin guide, "Hedberg" and "Architectural exceptions": a function that a plugin assigns is the one that other
/// plugins and the host call.
#[test]
fn functions_in_the_shared_tree_are_called_by_name() {
    in_fixtures(async |realm| {
        let resolved = realm.call("update.resolve", vec![json!({ "recorded": [1, 2] })]).await.expect("called");
        assert_eq!(resolved, Some(json!({ "summaryText": null, "updateText": "2 recorded" })));
        assert_eq!(realm.call("budget.enforce", vec![]).await.expect("no error"), None);
    });
}

/// Exceptions of subscribers are isolated: events continue, and a filter's value stays unchanged. With `faithful` an exception
/// ends the operation.
#[test]
fn a_subscriber_that_throws_is_isolated_and_named() {
    in_fixtures(async |realm| {
        let faults = realm.emit("turn.started", vec![json!({})]).await.expect("isolated");
        let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
        assert_eq!((&*fault.plugin, &*fault.hook, &*fault.message), ("noisy", "turn.started", "noisy: no"));
        assert_eq!(realm.call("clock.turns", vec![]).await.expect("called"), Some(json!(1)));
        let messages = realm.filter("llm.messages", json!(["m"]), vec![]).await.expect("isolated");
        assert_eq!(messages, json!(["m", "kept"]));
    });
    in_realm(
        Path::new(PLUGINS),
        |options| options.faithful = true,
        async |realm| {
            let error = realm.emit("turn.started", vec![json!({})]).await.expect_err("let through");
            assert!(matches!(&error, RummyError::Threw(thrown) if thrown.message.contains("noisy: no")), "{error}");
            assert_eq!(
                realm.call("clock.turns", vec![]).await.expect("called"),
                Some(json!(0)),
                "the emit ended there"
            );
        },
    );
}

/// Follows rummy's plugin guide, "Turn Pipeline": hooks can veto a proposal and change its content, and receive the event after
/// it.
#[test]
fn proposal_hooks_veto_change_and_hear() {
    in_fixtures(async |realm| {
        let ctx = |path: &str| json!({ "path": path, "db": { "$db": true }, "entries": { "$entries": null } });
        let accepting = |path: &str| realm.filter("proposal.accepting", Value::Null, vec![ctx(path)]);
        assert_eq!(accepting("a.txt").await.expect("filtered"), Value::Null);
        assert_eq!(accepting("a.lock").await.expect("filtered")["outcome"], "readonly");
        let body = realm.filter("proposal.content", "new".into(), vec![ctx("a.txt")]).await.expect("filtered");
        assert_eq!(body, "new (a.txt)");
        realm.emit("proposal.accepted", vec![json!({ "path": "a.txt", "resolvedBody": body })]).await.expect("emitted");
        assert_eq!(realm.call("approvals.list", vec![]).await.expect("called"), Some(json!(["a.txt: new (a.txt)"])));
    });
}

/// Follows rummy's plugin guide, "RPC Methods": plugins' methods, their exceptions, and the catalogue.
#[test]
fn rpc_methods_of_plugins_are_called_and_listed() {
    in_fixtures(async |realm| {
        let call = |params: Value| {
            realm.deliver("rpc", json!({ "method": "remote/double", "params": params, "context": { "projectId": 7 } }))
        };
        let doubled = call(json!({ "number": 21 })).await.expect("called").value;
        assert_eq!(doubled, json!({ "doubled": 42, "projectId": 7 }));
        let error = call(json!({})).await.expect_err("it throws");
        assert!(error.to_string().contains("number is required"), "{error}");
        let absent = realm.deliver("rpc", json!({ "method": "no/such" })).await.expect_err("nobody has it");
        assert!(matches!(absent, RummyError::Absent(_)), "{absent}");
        let catalogue = realm.deliver("discover", json!({})).await.expect("listed").value;
        assert_eq!(catalogue["methods"]["remote/double"]["params"], json!({ "number": "number" }));
        assert!(catalogue["notifications"]["remote/done"].is_object(), "{catalogue}");
    });
}

/// Follows rummy's plugin guide, "Tool Verbs", "Query Methods", "Properties"; changes reach `entry.changed` in order.
#[test]
fn verbs_and_queries_go_to_the_store_with_the_writer_of_their_delivery() {
    in_fixtures(async |realm| {
        let facts = json!({ "runId": 1, "projectId": 1, "sequence": 3, "writer": "plugin" });
        let rummy = realm.context("turn3", facts, CallPath::Plugin).await.expect("made");
        let event = json!({ "rummy": rummy.reference(), "content": "words of the model" });
        let faults = realm.emit("turn.response", vec![event]).await.expect("emitted");
        assert_eq!(faults, []);
        let report = realm.call("journal.report", vec![rummy.reference()]).await.expect("called").expect("it is there");
        assert_eq!(report["body"], "words of the model");
        assert_eq!(report["attributes"], json!({ "tags": "log", "kept": true }));
        assert_eq!((&report["state"], &report["absent"]), (&json!("resolved"), &Value::Null));
        assert_eq!(report["entries"], json!(["journal://moved", "journal://today"]));
        assert_eq!((&report["run"]["id"], &report["run"]["alias"]), (&json!(1), &json!("test")));
        assert_eq!(
            report["tree"],
            json!({ "tag": "note", "attrs": { "level": 1 }, "content": "text", "children": [] })
        );
        let changes = [
            "upsert journal://today",
            "upsert journal://copy",
            "upsert journal://moved",
            "remove journal://copy",
            "attributes journal://today",
            "upsert update://half_done",
        ];
        assert_eq!(report["changes"], json!(changes));
        rummy.close().await.expect("closed");
    });
}

/// Follows rummy's plugin guide, "Client Notifications": each notification of a plugin is forwarded to clients once.
#[test]
fn what_plugins_say_to_clients_is_passed_on() {
    in_fixtures(async |realm| {
        let told = Rc::new(std::cell::RefCell::new(Vec::new()));
        let heard = Rc::clone(&told);
        realm.listen(move |one| heard.borrow_mut().push((one.hook, one.payload)));
        realm.emit("run.progress", vec![json!({ "projectId": 7, "status": "thinking" })]).await.expect("emitted");
        let shown = json!({ "projectId": 7, "text": "thinking", "append": true });
        let noted = json!({ "projectId": 7, "text": "thinking", "level": "info" });
        let expected = [("ui.render".to_owned(), shown), ("ui.notify".to_owned(), noted)];
        assert_eq!(told.borrow()[..], expected);
        told.borrow_mut().clear();
        realm.emit("stream.cancelled", vec![json!({ "run": "r", "path": "p" })]).await.expect("emitted");
        assert_eq!(told.borrow()[..], [("stream.cancelled".to_owned(), json!({ "run": "r", "path": "p" }))]);
    });
}

/// The bundled plugins register. A plugin of the user replaces the bundled one with the same name.
#[test]
fn bundled_plugins_are_there_unless_the_users_have_their_names() {
    in_realm(
        Path::new(PLUGINS),
        |options| options.bundled = true,
        async |realm| {
            realm.initialise().await.expect("the store takes all schemes");
            let loaded = realm.loaded().await.expect("asked");
            let failed: Vec<_> =
                loaded.plugins.iter().filter(|plugin| plugin.kind == "failed").map(|plugin| &plugin.name).collect();
            assert_eq!(failed, ["broken"]);
            let order = ["think", "get", "set", "env", "sh", "rm", "cp", "mv", "ask_user", "greet", "update"];
            assert_eq!(loaded.advertised, order, "gather, reason, act, communicate");
            let toolset = json!({ "mode": "ask", "flags": { "noInteraction": true } });
            let names = realm.deliver("toolset", toolset).await.expect("asked").value;
            assert_eq!(names, json!(["think", "get", "set", "env", "rm", "cp", "mv", "greet", "update"]));
        },
    );
}

/// The plugins of rummy 0.5.0 load and register unmodified. `RUMMY_UPSTREAM` names a checkout with its dependencies installed,
/// which is not part of this repository.
#[test]
#[expect(clippy::print_stderr, reason = "why it was left out, and which plugins were loaded")]
fn upstreams_bundled_plugins_load_unmodified() {
    let Some(folder) = std::env::var_os("RUMMY_UPSTREAM") else {
        eprintln!("skipped: RUMMY_UPSTREAM names no checkout of rummy");
        return;
    };
    in_realm(
        Path::new(&folder),
        |options| options.profile = "0.5".to_owned(),
        async |realm| {
            realm.initialise().await.expect("the store takes all schemes");
            let loaded = realm.loaded().await.expect("asked");
            for plugin in &loaded.plugins {
                eprintln!("{:12} {:10} {}", plugin.name, plugin.kind, plugin.error.as_deref().unwrap_or_default());
            }
            let of_kind = |kind: &str| -> Vec<&str> {
                loaded.plugins.iter().filter(|plugin| plugin.kind == kind).map(|plugin| &*plugin.name).collect()
            };
            assert_eq!(of_kind("failed"), [""; 0]);
            assert_eq!(of_kind("none"), ["helpers"], "a module without a class is no plugin");
            assert_eq!(of_kind("class").len(), 26);
            let tools = ["get", "set", "env", "sh", "rm", "cp", "mv", "ask_user"];
            assert!(tools.iter().all(|tool| loaded.tools.iter().any(|name| name == tool)), "{:?}", loaded.tools);
            let catalogue = realm.deliver("discover", json!({})).await.expect("listed").value;
            eprintln!("{} methods", catalogue["methods"].as_object().map_or(0, Map::len));
            assert!(catalogue["methods"]["ping"].is_object(), "{catalogue}");
            for hook in ["assembly.system", "assembly.user", "turn.started", "turn.response", "entry.recording"] {
                assert!(loaded.hooks.contains_key(hook), "{hook}: {:?}", loaded.hooks);
            }
        },
    );
}

/// `possumtech/rummy.web` 2.3 loads unmodified beside the bundled plugins, and registers its tool. `RUMMY_UPSTREAM_WEB` names a
/// checkout with its dependencies installed.
#[test]
#[expect(clippy::print_stderr, reason = "why it was left out")]
fn upstreams_web_plugin_loads_unmodified() {
    let Some(folder) = std::env::var_os("RUMMY_UPSTREAM_WEB") else {
        eprintln!("skipped: RUMMY_UPSTREAM_WEB names no checkout of rummy.web");
        return;
    };
    let variables = [("RUMMY_PLUGIN_WEB".to_owned(), folder.to_string_lossy().into_owned())].into_iter().collect();
    with_plugins(
        PluginSet::default().variables(&variables, &[]).expect("it is there"),
        |options| options.bundled = true,
        async |realm| {
            realm.initialise().await.expect("the store takes all schemes");
            let loaded = realm.loaded().await.expect("asked");
            let web = loaded.plugins.iter().find(|plugin| plugin.name == "web").expect("it was found");
            assert_eq!((web.kind.as_str(), &web.error), ("class", &None));
            assert!(loaded.advertised.iter().any(|tool| tool == "search"), "{:?}", loaded.advertised);
        },
    );
}
