//! Tests files that are not extensions: the error is one sentence with a remedy.

use pijs_wasm::{RefusalKind, compile, text};

#[track_caller]
fn refused(bytes: &[u8], kind: RefusalKind, message: &str, help: &str) {
    let refusal = compile(bytes).expect_err("it is refused");
    assert_eq!(refusal.kind, kind, "{refusal}");
    assert!(refusal.message.contains(message), "{refusal}");
    assert!(refusal.help.contains(help), "{}", refusal.help);
    assert!(!refusal.message.contains('\n'), "one line: {refusal}");
}

#[test]
fn bytes_that_are_not_webassembly() {
    refused(b"", RefusalKind::Malformed, "not a valid WebAssembly file", "build it again");
    refused(b"#!/bin/sh\n", RefusalKind::Malformed, "not a valid WebAssembly file", "build it again");
    let whole = text::core_module(&text::module("", ""));
    for length in [9, 20, whole.len() / 2, whole.len() - 1] {
        let refusal = compile(&whole[..length]).expect_err("it is cut off");
        assert!(!refusal.message.contains('\n'), "{refusal}");
    }
    let mut damaged = compile(&whole).expect("whole").component;
    let middle = damaged.len() / 2;
    damaged[middle..middle + 16].fill(0xff);
    compile(&damaged).expect_err("it is damaged");
}

#[test]
fn a_component_for_another_host() {
    let other = text::assemble(r#"(component (import "my:host/api@1.0.0" (instance (export "go" (func)))))"#);
    refused(&other, RefusalKind::World, "it imports `my:host/api@1.0.0`", "another host");
    let later = text::assemble(r#"(component (import "pi:extension/robots@1.3.0" (instance (export "go" (func)))))"#);
    refused(&later, RefusalKind::World, "pi:extension/robots@1.3.0", "schema/wit/extension.wit");
    let empty = text::assemble("(component)");
    refused(&empty, RefusalKind::World, "does not fit pi:extension", "schema/wit/extension.wit");
    let preview3 = text::assemble(r#"(component (import "wasi:cli/stdout@0.3.0" (instance)))"#);
    refused(&preview3, RefusalKind::Import, "wasi:cli/stdout@0.3.0", "WASI 0.2");
}

#[test]
fn a_core_module_that_cannot_be_linked() {
    let worldless = text::assemble("(module)");
    refused(&worldless, RefusalKind::World, "without a description of its world", "wit-bindgen");
    let foreign = text::core_module(&text::module(r#"(import "env" "launch" (func))"#, ""));
    refused(&foreign, RefusalKind::Import, "`env` `launch`", "pi:extension only");
    let preview1 = text::core_module(&text::module(
        r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
        "",
    ));
    refused(&preview1, RefusalKind::Import, "wasi_snapshot_preview1", "wasm32-wasip2");
}
