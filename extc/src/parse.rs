//! Parses the text of one file to a syntax tree, or to a diagnostic that points at the first mistake.
//!
//! Accepts the syntax that pi's own loader accepts: TypeScript with decorators and enums, JSX where the file name says so, ES
//! modules and CommonJS. Every caller runs on the compiler's large stack, after [`crate::limits::check_nesting`].

use crate::limits::{Limits, check_nesting};
use pijs_diagnostics::{Code, Diagnostic, SYNTAX_HELP};
use std::sync::Arc;
use swc_core::common::{BytePos, FileName, SourceMap, Span, Spanned, sync::Lrc};
use swc_core::ecma::ast::{EsVersion, Program};
use swc_core::ecma::parser::{EsSyntax, Syntax, TsSyntax, parse_file_as_program};

/// A parsed file. [`range`](Self::range) converts positions in its tree to byte offsets.
pub(crate) struct Parsed {
    pub(crate) program: Program,
    pub(crate) source_map: Lrc<SourceMap>,
    /// The parsed text, which offsets refer to in bytes.
    pub(crate) source: Arc<str>,
    base: BytePos,
}

impl Parsed {
    /// Returns the byte offsets of a span in [`source`](Self::source).
    pub(crate) fn range(&self, span: Span) -> (usize, usize) {
        offsets(self.base, span)
    }
}

fn offsets(base: BytePos, span: Span) -> (usize, usize) {
    (span.lo.0.saturating_sub(base.0) as usize, span.hi.0.saturating_sub(base.0) as usize)
}

/// Parses a file as TypeScript or JavaScript, depending on its name.
pub(crate) fn parse(file: &str, source: &str, limits: &Limits) -> Result<Parsed, Diagnostic> {
    // The byte order mark is removed, so that offsets agree with the parser's, which does not count it.
    let source: Arc<str> = Arc::from(source.strip_prefix('\u{feff}').unwrap_or(source));
    check_nesting(file, &source, limits)?;
    let source_map: Lrc<SourceMap> = Lrc::default();
    let text = source_map.new_source_file(FileName::Custom(file.to_owned()).into(), source.to_string());
    let mut recovered = Vec::new();
    let parsed = parse_file_as_program(&text, syntax(file), EsVersion::latest(), None, &mut recovered);
    let base = text.start_pos;
    let program = parsed.map_err(|error| {
        let (start, end) = offsets(base, error.span());
        Diagnostic::new(Code::Syntax, error.kind().msg()).help(SYNTAX_HELP).at(file, &source, start, end)
    })?;
    Ok(Parsed { program, source_map, source, base })
}

/// Returns the syntax by suffix: `.ts`, `.mts`, `.cts` are TypeScript, `.tsx` with JSX; anything else is JavaScript with JSX.
fn syntax(file: &str) -> Syntax {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "ts" | "mts" | "cts" | "tsx" => Syntax::Typescript(TsSyntax {
            tsx: extension == "tsx",
            decorators: true,
            // The bundler reports errors that depend on the module kind, which only the bundler knows.
            no_early_errors: true,
            ..TsSyntax::default()
        }),
        _ => Syntax::Es(EsSyntax {
            jsx: true,
            decorators: true,
            decorators_before_export: true,
            import_attributes: true,
            allow_super_outside_method: true,
            allow_return_outside_function: true,
            explicit_resource_management: true,
            ..EsSyntax::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_pointed_at() {
        let Err(diagnostic) = parse("src/a.ts", "const ok = 1;\nconst = 2;\n", &Limits::default()) else {
            panic!("`const = 2` is not a statement")
        };
        let place = diagnostic.place().unwrap();
        assert_eq!(
            (diagnostic.code(), place.file.as_str(), place.line, place.column),
            (Code::Syntax, "src/a.ts", 2, 7)
        );
    }

    #[test]
    fn the_file_name_decides_the_language() {
        let limits = Limits::default();
        assert!(parse("a.ts", "const a = <T>(x: T) => x as unknown;", &limits).is_ok());
        assert!(parse("a.js", "const a = (x: string) => x;", &limits).is_err());
        assert!(parse("a.cjs", "return module.exports = 1", &limits).is_ok());
        assert!(parse("a.tsx", "const a = <b>c</b>;", &limits).is_ok());
    }

    #[test]
    fn offsets_ignore_a_byte_order_mark() {
        let parsed = parse("a.ts", "\u{feff}let a;", &Limits::default()).unwrap();
        assert_eq!(parsed.range(parsed.program.span()), (0, 6));
    }
}
