//! Parses and expands values of `mcp.json`: text with `${NAME}`, or `!command`.

use crate::config::Source;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Maximum length of a command's output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// Runs a command line of the user's own file and returns its output; `None` if the command fails.
pub type RunCommand = dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync;

/// A parsed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueTemplate<'a> {
    /// A command line.
    Command(&'a str),
    /// Literals and variables.
    Text(Vec<ValuePart<'a>>),
}

/// A part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValuePart<'a> {
    /// Literal text.
    Literal(&'a str),
    /// A variable: `${NAME}`.
    Variable(&'a str),
}

impl<'a> ValueTemplate<'a> {
    /// Parses a value.
    pub fn parse(value: &'a str) -> Self {
        if let Some(command) = value.strip_prefix('!') {
            return Self::Command(command.trim());
        }
        let mut parts = Vec::new();
        let mut rest = value;
        while let Some(at) = rest.find("${") {
            let name = rest[at + 2..].split_once('}').map(|(name, _)| name);
            let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let Some(name) = name.filter(is_name) else {
                // Without a valid name, `${` is literal text.
                parts.push(ValuePart::Literal(&rest[..at + 2]));
                rest = &rest[at + 2..];
                continue;
            };
            if at > 0 {
                parts.push(ValuePart::Literal(&rest[..at]));
            }
            parts.push(ValuePart::Variable(name));
            rest = &rest[at + name.len() + 3..];
        }
        if !rest.is_empty() {
            parts.push(ValuePart::Literal(rest));
        }
        Self::Text(parts)
    }

    /// Returns the text of a value without variables; `None` for any other value.
    pub(crate) fn literal(&self) -> Option<String> {
        let Self::Text(parts) = self else { return None };
        let text = |part: &ValuePart<'a>| match part {
            ValuePart::Literal(text) => Some(*text),
            ValuePart::Variable(_) => None,
        };
        parts.iter().map(text).collect()
    }

    /// Returns the names of the variables.
    pub fn variables(&self) -> Vec<&'a str> {
        let Self::Text(parts) = self else { return Vec::new() };
        let name = |part: &ValuePart<'a>| match part {
            ValuePart::Variable(name) => Some(*name),
            ValuePart::Literal(_) => None,
        };
        parts.iter().filter_map(name).collect()
    }
}

/// Expands a value. `variable` returns the value of a variable that the server may read.
///
/// # Errors
///
/// Fails when a variable is not set, when the source may not run commands, and when a command fails.
pub async fn expand(
    value: &str,
    source: &Source,
    variable: impl Fn(&str) -> Option<String>,
    run: Option<&Arc<RunCommand>>,
) -> Result<String, String> {
    match ValueTemplate::parse(value) {
        ValueTemplate::Command(line) => {
            let run = match source {
                Source::User => run,
                _ => None,
            };
            let Some(run) = run else {
                return Err(
                    "`!command` runs from the user's own mcp.json only; write ${NAME}, or move the entry there"
                        .to_owned(),
                );
            };
            let printed = run(line.to_owned()).await.filter(|printed| printed.len() <= MAX_OUTPUT_BYTES);
            let printed = printed.map(|printed| printed.trim_end_matches(['\n', '\r']).to_owned());
            printed
                .filter(|text| !text.is_empty())
                .ok_or_else(|| format!("the command `{line}` failed or printed nothing"))
        }
        ValueTemplate::Text(parts) => {
            let mut text = String::new();
            for part in parts {
                match part {
                    ValuePart::Literal(literal) => text.push_str(literal),
                    ValuePart::Variable(name) => match variable(name) {
                        Some(value) => text.push_str(&value),
                        None => return Err(format!("the variable {name} is not set; set it, or write its value")),
                    },
                }
            }
            Ok(text)
        }
    }
}

/// Returns the parts of a value that have to be redacted: the whole value, and the credential after a scheme (`Bearer KEY`),
/// which a server may repeat on its own.
pub fn secret_parts(value: &str) -> impl Iterator<Item = &str> {
    let credential = value.split_once(' ').map(|(_, rest)| rest.trim());
    std::iter::once(value).chain(credential)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn expanded(value: &str, source: &Source) -> Result<String, String> {
        let run: Arc<RunCommand> =
            Arc::new(|line| Box::pin(async move { (line == "echo a").then(|| "a\n".to_owned()) }));
        let variable = |name: &str| (name == "A").then(|| "1".to_owned());
        expand(value, source, variable, Some(&run)).now_or_never().expect("waits for nothing")
    }

    #[test]
    fn a_value_is_text_with_variables_or_a_command() {
        for (value, text) in
            [("x${A}y${A}", "x1y1"), ("$A ${", "$A ${"), ("${}${A", "${}${A"), ("a!b", "a!b"), ("! echo a", "a")]
        {
            assert_eq!(expanded(value, &Source::User).as_deref(), Ok(text));
        }
        assert!(expanded("${B}", &Source::User).unwrap_err().contains("B is not set"));
        assert!(expanded("!false", &Source::User).unwrap_err().contains("`false` failed"));
        assert_eq!(ValueTemplate::parse("a${A}${B}").variables(), ["A", "B"]);
    }

    #[test]
    fn a_project_runs_no_commands() {
        for source in [Source::Project, Source::Extension("x".to_owned())] {
            assert!(expanded("!echo a", &source).unwrap_err().contains("user's own mcp.json"));
            assert_eq!(expanded("${A}", &source).as_deref(), Ok("1"));
        }
    }
}
