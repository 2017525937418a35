//! Values of `mcp.json`: text with `${NAME}`, or `!command`.

use crate::config::Source;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Longest output of a command that is used.
const LONGEST: usize = 64 << 10;

/// Runs a command line of the user's own file and answers what it printed; `None` when it failed.
pub type RunCommand = dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync;

/// A value, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written<'a> {
    /// A command line.
    Command(&'a str),
    /// Pieces of text, and names of variables.
    Text(Vec<Piece<'a>>),
}

/// A piece of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it stands.
    Literal(&'a str),
    /// `${NAME}`.
    Variable(&'a str),
}

impl<'a> Written<'a> {
    /// Reads a value.
    pub fn parse(value: &'a str) -> Self {
        if let Some(command) = value.strip_prefix('!') {
            return Self::Command(command.trim());
        }
        let mut pieces = Vec::new();
        let mut rest = value;
        while let Some(at) = rest.find("${") {
            let name = rest[at + 2..].split_once('}').map(|(name, _)| name);
            let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let Some(name) = name.filter(is_name) else {
                // No name: the two characters stand for themselves.
                pieces.push(Piece::Literal(&rest[..at + 2]));
                rest = &rest[at + 2..];
                continue;
            };
            if at > 0 {
                pieces.push(Piece::Literal(&rest[..at]));
            }
            pieces.push(Piece::Variable(name));
            rest = &rest[at + name.len() + 3..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest));
        }
        Self::Text(pieces)
    }

    /// The text of a value without variables.
    pub(crate) fn literal(&self) -> Option<String> {
        let Self::Text(pieces) = self else { return None };
        let text = |piece: &Piece<'a>| match piece {
            Piece::Literal(text) => Some(*text),
            Piece::Variable(_) => None,
        };
        pieces.iter().map(text).collect()
    }

    /// Names of the variables in it.
    pub fn variables(&self) -> Vec<&'a str> {
        let Self::Text(pieces) = self else { return Vec::new() };
        let name = |piece: &Piece<'a>| match piece {
            Piece::Variable(name) => Some(*name),
            Piece::Literal(_) => None,
        };
        pieces.iter().filter_map(name).collect()
    }
}

/// Returns what a value stands for. `variable` tells what a variable holds, as far as the server may know.
///
/// # Errors
///
/// A variable is not set, or a command may not run or fails; the message says what to do.
pub async fn expand(
    value: &str,
    source: &Source,
    variable: impl Fn(&str) -> Option<String>,
    run: Option<&Arc<RunCommand>>,
) -> Result<String, String> {
    match Written::parse(value) {
        Written::Command(line) => {
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
            let printed = run(line.to_owned()).await.filter(|printed| printed.len() <= LONGEST);
            let printed = printed.map(|printed| printed.trim_end_matches(['\n', '\r']).to_owned());
            printed
                .filter(|text| !text.is_empty())
                .ok_or_else(|| format!("the command `{line}` failed or printed nothing"))
        }
        Written::Text(pieces) => {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    Piece::Literal(literal) => text.push_str(literal),
                    Piece::Variable(name) => match variable(name) {
                        Some(value) => text.push_str(&value),
                        None => return Err(format!("the variable {name} is not set; set it, or write its value")),
                    },
                }
            }
            Ok(text)
        }
    }
}

/// Parts of a value that a server may repeat without the rest: all of it, and what follows the name of a scheme (`Bearer KEY`).
pub fn parts(value: &str) -> impl Iterator<Item = &str> {
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
        assert_eq!(Written::parse("a${A}${B}").variables(), ["A", "B"]);
    }

    #[test]
    fn a_project_runs_no_commands() {
        for source in [Source::Project, Source::Extension("x".to_owned())] {
            assert!(expanded("!echo a", &source).unwrap_err().contains("user's own mcp.json"));
            assert_eq!(expanded("${A}", &source).as_deref(), Ok("1"));
        }
    }
}
