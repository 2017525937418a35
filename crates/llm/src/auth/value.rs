//! Syntax of configuration values that contain or refer to a secret: keys and headers in `auth.json` and `models.json`.
//!
//! | syntax | value |
//! |---|---|
//! | `!command` | output of the command |
//! | `$NAME`, `${NAME}` | environment variable, also within other text |
//! | `$$`, `$!` | `$`, `!` |
//! | anything else | literal text |

/// A parsed configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigValue {
    /// A command whose output is the value.
    Command(String),
    /// Text with variables.
    Template(Vec<TemplatePart>),
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Literal text.
    Text(String),
    /// The value of an environment variable.
    Variable(String),
}

impl ConfigValue {
    /// Parses a value.
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix('!') {
            Some(command) => Self::Command(command.to_owned()),
            None => Self::Template(parts(text)),
        }
    }

    /// Returns the names of the variables, without duplicates.
    pub fn variables(&self) -> Vec<&str> {
        let Self::Template(parts) = self else { return Vec::new() };
        let mut names: Vec<&str> = Vec::new();
        for part in parts {
            if let TemplatePart::Variable(name) = part
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names
    }

    /// Returns the value of a template; `None` for a command, and when a variable is not set.
    pub fn filled(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let Self::Template(parts) = self else { return None };
        let value = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => Some(text.clone()),
            TemplatePart::Variable(name) => variable(name).filter(|value| !value.is_empty()),
        };
        parts.iter().map(value).collect()
    }
}

fn parts(text: &str) -> Vec<TemplatePart> {
    let mut parts: Vec<TemplatePart> = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (taken, name) = read(after);
        match name {
            Some(name) => {
                if !literal.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut literal)));
                }
                parts.push(TemplatePart::Variable(name.to_owned()));
            }
            // `$$` and `$!` lose their first character; any other text is kept.
            None if taken == 1 => literal.push_str(&after[..1]),
            None => literal.push_str(&rest[at..=at + taken]),
        }
        rest = &after[taken..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(TemplatePart::Text(literal));
    }
    parts
}

/// Parses the text after a dollar sign. Returns the number of bytes consumed, and the name of the variable.
fn read(after: &str) -> (usize, Option<&str>) {
    if after.starts_with(['$', '!']) {
        return (1, None);
    }
    if let Some(inner) = after.strip_prefix('{') {
        return match inner.find('}') {
            Some(end) if name_length(&inner[..end]) == end && end > 0 => (end + 2, Some(&inner[..end])),
            Some(end) => (end + 2, None),
            None => (0, None),
        };
    }
    match name_length(after) {
        0 => (0, None),
        length => (length, Some(&after[..length])),
    }
}

/// Returns the length of the variable name at the start of a text.
fn name_length(text: &str) -> usize {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    text.find(|next: char| !(next.is_ascii_alphanumeric() || next == '_')).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_as_in_pi() {
        let variable = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B_2" => Some("two".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, value) in [
            ("plain", Some("plain")),
            ("$A", Some("1")),
            ("${B_2}", Some("two")),
            ("x-$A-${B_2}/y", Some("x-1-two/y")),
            ("$$A", Some("$A")),
            ("$!x", Some("!x")),
            ("a$", Some("a$")),
            ("${", Some("${")),
            ("${1x}", Some("${1x}")),
            ("${}", Some("${}")),
            ("$1", Some("$1")),
            ("$NOT_SET", None),
            ("$EMPTY", None),
            ("", Some("")),
        ] {
            assert_eq!(ConfigValue::parse(text).filled(&variable).as_deref(), value, "{text}");
        }
        assert_eq!(ConfigValue::parse("!pass show $A"), ConfigValue::Command("pass show $A".to_owned()));
        assert_eq!(ConfigValue::parse("$A$B$A").variables(), ["A", "B"]);
    }
}
