//! Compares the world with the protocol, so that neither changes without the other.

use pijs_protocol::ErrorCode;
use pijs_protocol::hostcall::HostcallError;
use wit_parser::{Resolve, TypeDefKind, WorldItem};

const TEXT: &str = include_str!("../../../../schema/wit/extension.wit");

fn world() -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_source("extension.wit", TEXT).expect("the world");
    resolve
}

fn cases(resolve: &Resolve, name: &str) -> Vec<String> {
    let (_, found) = resolve.types.iter().find(|(_, def)| def.name.as_deref() == Some(name)).expect("the type");
    match &found.kind {
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| case.name.replace('-', "_")).collect(),
        TypeDefKind::Enum(values) => values.cases.iter().map(|case| case.name.replace('-', "_")).collect(),
        other => panic!("{name} is {}", other.as_str()),
    }
}

/// Returns the variants of an enumeration, from its schema.
fn names<T: schemars::JsonSchema>() -> Vec<String> {
    let schema = schemars::schema_for!(T).to_value();
    let text = |value: &serde_json::Value| Some(value["const"].as_str()?.to_owned());
    schema["oneOf"].as_array().expect("cases").iter().filter_map(text).collect()
}

#[test]
fn the_cases_are_those_of_the_protocol() {
    let resolve = world();
    assert_eq!(cases(&resolve, "error"), names::<ErrorCode>());
    assert_eq!(cases(&resolve, "stream-source"), names::<pijs_protocol::StreamSource>());
    assert_eq!(cases(&resolve, "injection-role"), names::<pijs_protocol::stream::InjectionRole>());
    let members = |name: &str| -> Vec<String> {
        let (_, found) = resolve.types.iter().find(|(_, def)| def.name.as_deref() == Some(name)).expect("the type");
        let TypeDefKind::Record(record) = &found.kind else { panic!("{name} is no record") };
        record.fields.iter().map(|field| field.name.clone()).collect()
    };
    let error = serde_json::to_value(HostcallError::io("ENOENT", "open", "x")).expect("JSON");
    let mut written: Vec<_> = error.as_object().expect("an object").keys().map(String::as_str).collect();
    written.retain(|name| *name != "code");
    assert_eq!(members("failure"), written);
}

#[test]
fn everything_is_documented() {
    let resolve = world();
    for (_, interface) in &resolve.interfaces {
        let name = interface.name.as_deref().unwrap_or_default();
        assert!(interface.docs.contents.is_some(), "{name}");
        for (function, found) in &interface.functions {
            assert!(found.docs.contents.is_some(), "{name}.{function}");
        }
        for (ty, id) in &interface.types {
            let imported = matches!(resolve.types[*id].kind, TypeDefKind::Type(wit_parser::Type::Id(_)));
            assert!(imported || resolve.types[*id].docs.contents.is_some(), "{name}.{ty}");
        }
    }
    let (_, world) = resolve.worlds.iter().find(|(_, world)| world.name == "extension").expect("the world");
    let exports: Vec<_> = world
        .exports
        .iter()
        .filter_map(|(_, item)| match item {
            WorldItem::Function(function) => {
                assert!(function.docs.contents.is_some(), "{}", function.name);
                Some(function.name.as_str())
            }
            _ => None,
        })
        .collect();
    assert_eq!(exports, ["register", "on-event", "stream-text", "call-tool", "run-command", "complete"]);
}
