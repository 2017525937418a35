//! Strips types from one TypeScript module, and leaves imports unchanged.
//!
//! Used for host modules, which are written in TypeScript and not bundled: each remains a separate module, so that a realm loads
//! only those that an extension imports.

use crate::limits::Limits;
use crate::parse::{Parsed, parse};
use pijs_diagnostics::Diagnostic;
use swc_core::common::source_map::SourceMapGenConfig;
use swc_core::common::{FileName, GLOBALS, Globals, Mark};
use swc_core::ecma::ast::Pass;
use swc_core::ecma::codegen::text_writer::JsWriter;
use swc_core::ecma::codegen::{Config, Emitter};
use swc_core::ecma::transforms::base::fixer::fixer;
use swc_core::ecma::transforms::base::hygiene::hygiene;
use swc_core::ecma::transforms::base::resolver;
use swc_core::ecma::transforms::typescript::strip;

/// JavaScript and the map back to the TypeScript it came from.
pub(crate) struct Stripped {
    pub(crate) code: String,
    pub(crate) map: String,
}

/// Removes types, and imports that are only used as types.
pub(crate) fn strip_types(file: &str, source: &str, limits: &Limits) -> Result<Stripped, Diagnostic> {
    let Parsed { mut program, source_map, .. } = parse(file, source, limits)?;
    GLOBALS.set(&Globals::new(), || {
        let unresolved = Mark::new();
        let top_level = Mark::new();
        let mut passes = (resolver(unresolved, top_level, true), strip(unresolved, top_level), hygiene(), fixer(None));
        passes.process(&mut program);
    });
    let mut code = Vec::new();
    let mut mappings = Vec::new();
    let mut emitter = Emitter {
        cfg: Config::default(),
        cm: source_map.clone(),
        comments: None,
        wr: JsWriter::new(source_map.clone(), "\n", &mut code, Some(&mut mappings)),
    };
    emitter.emit_program(&program).expect("writing to memory does not fail");
    let mut map = Vec::new();
    source_map.build_source_map(&mappings, None, Plain).to_writer(&mut map).expect("writing to memory does not fail");
    Ok(Stripped {
        code: String::from_utf8(code).expect("the emitter writes UTF-8"),
        map: String::from_utf8(map).expect("a source map is JSON"),
    })
}

/// Names sources by path, without content: host modules are identified by path.
struct Plain;

impl SourceMapGenConfig for Plain {
    fn file_name_to_source(&self, file: &FileName) -> String {
        file.to_string().trim_start_matches('<').trim_end_matches('>').to_owned()
    }

    fn inline_sources_content(&self, _: &FileName) -> bool {
        false
    }

    fn skip(&self, _: &FileName) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::PositionTable;

    #[test]
    fn types_and_type_only_imports_are_removed() {
        let source = "import { type A, b, C } from 'pi:x';\nimport type { D } from 'pi:y';\n\
            import 'pi:z';\nexport enum E { One = 1 }\nexport function f(this: C, a: A): D { return b(a) as D; }\n";
        let stripped = strip_types("m.ts", source, &Limits::default()).unwrap();
        assert!(stripped.code.starts_with("import { b } from 'pi:x';\nimport 'pi:z';\n"), "{}", stripped.code);
        assert!(!stripped.code.contains(": ") || !stripped.code.contains("as D"), "{}", stripped.code);
        assert!(stripped.code.contains("export function f(a)"), "{}", stripped.code);
    }

    #[test]
    fn positions_map_back_to_the_typescript() {
        let source = "interface A { a: string }\n\nexport function f(a: A): never {\n  throw new Error(a.a);\n}\n";
        let stripped = strip_types("web/m.ts", source, &Limits::default()).unwrap();
        let line = stripped.code.lines().position(|line| line.contains("throw")).unwrap();
        let column = stripped.code.lines().nth(line).unwrap().find("new Error").unwrap();
        let table = PositionTable::parse(&stripped.map).unwrap();
        let place = table.original(line as u32 + 1, column as u32 + 1).unwrap();
        assert_eq!((place.file.as_str(), place.line, place.column), ("web/m.ts", 4, 9));
    }
}
