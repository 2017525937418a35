//! Synthetic modules of the bundler: host modules that are imported with `require`, and missing modules.

use std::fmt::Write as _;

/// Ids start with NUL, as bundlers mark modules that no file backs.
const PREFIX: &str = "\0pijs:";
/// The bundler names the chunk of a dynamic import after the last part of its id.
const CHUNK_NAME: &str = "/missing";

/// A module that the linker synthesizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Virtual {
    /// The value that `require` of a host module returns. `default`: Node's builtins have one, packages do not.
    Required { specifier: String, builtin: bool },
    /// Throws when it is evaluated: a static import fails at load, a guarded `require` or `import()` fails where it is executed,
    /// as under Node.
    Missing { code: &'static str, message: String },
}

impl Virtual {
    pub(super) fn id(&self) -> String {
        match self {
            Virtual::Required { specifier, builtin: true } => format!("{PREFIX}require-builtin:{specifier}"),
            Virtual::Required { specifier, builtin: false } => format!("{PREFIX}require-package:{specifier}"),
            Virtual::Missing { code, message } => format!("{PREFIX}missing:{code}:{message}{CHUNK_NAME}"),
        }
    }

    /// Returns the source of the synthetic module with this id.
    pub(super) fn source(id: &str) -> Option<String> {
        let (kind, rest) = id.strip_prefix(PREFIX)?.split_once(':')?;
        Some(match kind {
            "require-builtin" => {
                let specifier = quoted(rest);
                format!(
                    "import * as ns from {specifier};\nconst value = ns.default ?? ns;\nexport {{ value as 'module.exports' }};\n"
                )
            }
            "require-package" => {
                format!("import * as ns from {};\nexport {{ ns as 'module.exports' }};\n", quoted(rest))
            }
            "missing" => {
                let (code, message) = rest.strip_suffix(CHUNK_NAME)?.split_once(':')?;
                let mut source = String::from("module.exports = (() => {\n");
                let (message, code) = (quoted(message), quoted(code));
                let _ = writeln!(source, "  throw Object.assign(new Error({message}), {{ code: {code} }});");
                source.push_str("})();\n");
                source
            }
            _ => return None,
        })
    }
}

/// Returns whether an id belongs to a synthetic module of the linker or the bundler.
pub(super) fn is_virtual(id: &str) -> bool {
    id.starts_with('\0')
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
