//! Caps on the compiler's input, checked before any recursive code sees it.
//!
//! A parser recurses where its input nests, so a scan that does not recurse bounds the nesting,
//! and the compiler runs on a thread with a stack large enough for that bound.

use pijs_diagnostics::{Code, Diagnostic};
use pijs_engine::{Nested, NestingCaps};
use pijs_protocol::guard;
use std::sync::Arc;

/// Caps on one build.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Maximum size of a source file, in bytes. Tables of tokens and compilers come as one file of 5 to 9 MB.
    pub file_bytes: usize,
    /// Maximum total size of the files of one artifact, in bytes.
    pub total_bytes: usize,
    /// Maximum number of files of one artifact.
    pub files: usize,
    /// Maximum number of brackets open at one position. Hand-written code stays below 30, generated parsers below 200.
    pub nesting: usize,
    /// Maximum number of operators in one expression and the expressions around it: the depth to which a recursive parser may
    /// descend without meeting a bracket.
    pub operators: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 12 << 20, total_bytes: 32 << 20, files: 20_000, nesting: 1_000, operators: 20_000 }
    }
}

impl Limits {
    /// Returns the caps for a package whose entry is an artifact.
    pub(crate) fn of_artifact(self) -> Self {
        let most = MAX_ARTIFACT_BYTES as usize;
        Self { file_bytes: most, total_bytes: most, ..self }
    }
}

/// Maximum size of an artifact in bytes: four times the input of one build, for sources, maps and bytecode.
pub const MAX_ARTIFACT_BYTES: u64 = 128 << 20;

/// Stack size of the compiler's threads. It reserves address space; the system commits pages on first use.
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// Runs a phase on threads whose stacks are large enough for the nesting that [`check_nesting`] permits.
///
/// The thread pool is separate, so that parallel work of the bundler stays on these threads too.
///
/// # Errors
///
/// Fails when the system does not start a single thread.
pub(crate) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Diagnostic> {
    let threads =
        || rayon::ThreadPoolBuilder::new().stack_size(STACK_BYTES).thread_name(|index| format!("extc-{index}"));
    // A pool with one thread is slower, but the artifact has the same bytes.
    let pool = threads().build().or_else(|_| threads().num_threads(1).build());
    let failed = |error| Diagnostic::new(Code::Limit, format!("cannot start a thread for the build: {error}"));
    Ok(pool.map_err(failed)?.install(work))
}

/// Refuses source that nests beyond the caps, without parsing it.
///
/// Works on bytes: brackets are counted wherever they occur. Strings, comments and templates are skipped by their quotes. A
/// regular expression is not recognised, so brackets and quotes in it count. On real code the error is a few levels, and the cap
/// is ten times the need of real code; the end of the line closes a quote inside a regular expression.
pub(crate) fn check_nesting(file: &str, source: &Arc<str>, limits: &Limits) -> Result<(), Diagnostic> {
    if !guard!(BuildNesting) {
        return Ok(());
    }
    let caps = NestingCaps { brackets: limits.nesting, operators: limits.operators, depth_bytes: u64::MAX };
    pijs_engine::check_nesting(source, &caps).map_err(|Nested { at, message }| {
        Diagnostic::new(Code::Limit, message)
            .at(file, source, at, at + 1)
            .help("split the expression, or keep generated data in a JSON file")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str) -> Result<(), Diagnostic> {
        check_nesting("a.ts", &Arc::from(source), &Limits::default())
    }

    #[test]
    fn deep_nesting_is_refused_in_every_bracket() {
        for open in ["(", "[", "{", "`${", "f(", "[{"] {
            assert!(check(&open.repeat(2_000)).is_err(), "{open}");
        }
    }

    #[test]
    fn long_chains_without_brackets_are_refused() {
        for link in ["!", "a=>", "a?b:", "a+", "-", "typeof ", ".a", "else if ", "a\n+"] {
            assert!(check(&link.repeat(40_000)).is_err(), "{link}");
        }
    }

    #[test]
    fn long_flat_code_passes() {
        for line in [
            "a = b + c;\n",
            "f(a, b);\n",
            "function f() { return a.b }\n",
            "x = {a: 1, b: [2]};\n",
            "// it's (\n",
            "/* ( */",
        ] {
            assert!(check(&line.repeat(40_000)).is_ok(), "{line}");
        }
        assert!(check(&format!("x = [{}]", "'(', a.b, ".repeat(40_000))).is_ok());
        assert!(check(&"x = `a ( ${b} [`;\n".repeat(5_000)).is_ok());
    }

    #[test]
    fn a_quote_in_a_regular_expression_costs_one_line() {
        assert!(check(&"x.replace(/'/g, y);\nz();\n".repeat(300)).is_ok());
    }
}
