//! Creates components from text, for tests: core modules whose exports have the flat signatures of the world.
//!
//! A test writes the functions that it checks; [`module`] adds the others, which return nothing.

use wit_component::StringEncoding;
use wit_parser::Resolve;

/// Definition of the world.
const WORLD: &str = include_str!("../../../schema/wit/extension.wit");

/// Exports of the world with their flat signatures. Each returns address 0, which holds zeros: success without a value.
const EXPORTS: &[(&str, &str)] = &[
    ("register", ""),
    ("on-event", "(param i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("stream-text", "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("call-tool", "(param i32 i32 i32 i32 i32 i32 i32 i32)"),
    ("run-command", "(param i32 i32 i32 i32 i32 i32)"),
    ("complete", "(param i32 i64 i32 i32 i32 i32 i32 i32 i32 i32)"),
];

/// Memory and an allocator that starts at 64 KiB and never frees. A test can use all lower addresses.
const MEMORY: &str = r#"
  (memory (export "memory") 2)
  (global $next (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
      (then (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))))
    (local.get $at))
"#;

/// Writes a core module with all exports of the world: `items` (imports first), and a function without a result for each missing
/// export.
pub fn module(imports: &str, items: &str) -> String {
    let mut text = format!("(module {imports}");
    if !items.contains("\"memory\"") {
        text.push_str(MEMORY);
    }
    for (name, parameters) in EXPORTS {
        if !items.contains(&format!("\"{name}\"")) {
            text.push_str(&format!("(func (export \"{name}\") {parameters} (result i32) (i32.const 0))\n"));
        }
    }
    text.push_str(items);
    text.push(')');
    text
}

/// Assembles a core module and adds the description of its world, as a compiler with `wit-bindgen` does.
///
/// # Panics
///
/// Panics when the text is invalid.
pub fn core_module(text: &str) -> Vec<u8> {
    core_module_with(text, &[])
}

/// Assembles a core module for a world with additional imports, each a package of one interface: `("wasi:random/random@0.2.3",
/// TEXT)`.
///
/// # Panics
///
/// Panics when a text is invalid.
pub fn core_module_with(text: &str, imports: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = wat::parse_str(text).expect("the text of a module");
    let mut resolve = Resolve::default();
    resolve.push_source("extension.wit", WORLD).expect("the world");
    let mut world = "package test:guest; world guest { include pi:extension/extension@1.0.0;".to_owned();
    for (name, package) in imports {
        resolve.push_source(name, package).expect("a package");
        world.push_str(&format!(" import {name};"));
    }
    let package = resolve.push_source("guest.wit", &format!("{world} }}")).expect("a world");
    let world = resolve.select_world(&[package], Some("guest")).expect("a world named guest");
    wit_component::embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).expect("a description");
    bytes
}

/// Assembles any text: a component of another world, or a module without a world.
///
/// # Panics
///
/// Panics when the text is invalid.
pub fn assemble(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("WebAssembly text")
}
