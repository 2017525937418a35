//! Tests the compilation of source to bytecode.

use pijs_engine::{ModuleSource, compile, engine_build};

#[test]
fn the_same_source_gives_the_same_bytes_in_any_company() {
    let one = ModuleSource { specifier: "a.js", source: "import x from './b.js'; export default () => x;" };
    let two = ModuleSource { specifier: "b.js", source: "export default { deep: [1, 2n, /r/u] };" };
    let together = compile(&[one, two]).expect("parses");
    let reversed = compile(&[two, one]).expect("parses");
    assert_eq!(together, [reversed[1].clone(), reversed[0].clone()]);
    let renamed = compile(&[ModuleSource { specifier: "c.js", ..one }]).expect("parses");
    assert_ne!(renamed[0], together[0], "the specifier is part of the bytecode");
}

#[test]
fn a_syntax_error_names_module_line_and_column() {
    let source = "const fine = 1;\n\n  const = 2;\n";
    let error = compile(&[ModuleSource { specifier: "chunks/broken.js", source }]).expect_err("does not parse");
    assert_eq!((error.specifier.as_str(), error.line, error.column), ("chunks/broken.js", 3, 9));
    assert!(!error.message.is_empty());
}

#[test]
fn source_text_is_not_in_the_bytecode() {
    let source = "export const f = () => { /* a comment nobody ships */ return 1; };";
    let bytecode = compile(&[ModuleSource { specifier: "a.js", source }]).expect("parses").remove(0);
    assert!(!String::from_utf8_lossy(&bytecode).contains("nobody ships"));
}

#[test]
fn the_build_names_engine_format_and_target() {
    let build = engine_build();
    assert_eq!(build.name, "quickjs-ng");
    assert_eq!(build, engine_build());
    let bytecode = compile(&[ModuleSource { specifier: "a.js", source: "" }]).expect("parses").remove(0);
    assert_eq!(build.bytecode, u32::from(bytecode[0]));
    assert!(build.target.ends_with(&usize::BITS.to_string()), "{}", build.target);
}
