//! The version files of managers of versions (asdf, mise, proto, volta): which files they read, and which lines name a program
//! instead of a version.

/// The syntax of a version file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionSyntax {
    /// A tool and its versions in each line (`.tool-versions`).
    Tools,
    /// A version (`.node-version`).
    Version,
    /// TOML (`mise.toml`, `.prototools`), in which a line may also name variables, tasks, plug-ins or other names of tools.
    Settings,
}

/// Returns the syntax of a file, by its name; `None` if no manager reads it.
pub fn syntax_of(name: &str) -> Option<VersionSyntax> {
    let of_mise = name.trim_start_matches('.').starts_with("mise") || name.trim_start_matches('.').starts_with("rtx");
    match name {
        ".tool-versions" => Some(VersionSyntax::Tools),
        ".nvmrc" => Some(VersionSyntax::Version),
        _ if name.starts_with('.') && name.ends_with("-version") => Some(VersionSyntax::Version),
        _ if name.starts_with(".prototools") || (of_mise && name.ends_with(".toml")) => Some(VersionSyntax::Settings),
        _ => None,
    }
}

/// Returns the number of the first line that names something other than a version.
pub fn naming_line(text: &str, syntax: VersionSyntax) -> Option<usize> {
    let mut is_task = false;
    let at = text.lines().position(|line| {
        let (before, comment) = line.split_once('#').unwrap_or((line, ""));
        match syntax {
            VersionSyntax::Tools => before.split_whitespace().skip(1).any(is_path),
            VersionSyntax::Version => line.split_whitespace().any(is_path),
            VersionSyntax::Settings => {
                // A `#` in a string begins no comment, and the string ends behind it.
                let is_quoted = [before, comment].iter().all(|part| part.contains(['"', '\'']));
                let line = if is_quoted { line } else { before }.trim();
                // A shim runs no task.
                is_task = if line.starts_with('[') { is_table_of_tasks(line) } else { is_task };
                !is_task && !is_plain_setting(line)
            }
        }
    });
    at.map(|at| at + 1)
}

/// Returns whether a version is a path, or leaves the folder of versions.
fn is_path(version: &str) -> bool {
    version.starts_with("path:")
        || version.starts_with(['/', '.', '~'])
        || ["..", "\\", "{{"].iter().any(|part| version.contains(part))
}

fn is_table_of_tasks(line: &str) -> bool {
    line.strip_prefix("[tasks").is_some_and(|rest| rest.starts_with([']', '.']))
}

/// Returns whether a line of TOML contains nothing but versions of tools.
fn is_plain_setting(line: &str) -> bool {
    let is_word = |text: &str, more: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c)) && !text.contains("..")
    };
    // The lines of a longer string would be read as tables.
    if line.contains("\"\"\"") || line.contains("'''") {
        return false;
    }
    match line.split_once('=') {
        None => {
            matches!(line, "" | "[tools]" | "]") || (line.starts_with(['"', '\'']) && is_word(line, "-_.+@*\"', ]"))
        }
        Some((tool, version)) => is_word(tool.trim(), "-_\"'") && is_word(version.trim(), "-_.+@*\"', []<>=^~"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_among_versions_are_found() {
        for (text, line) in [
            ("jq 1.6\nnodejs 20.1.0 lts-iron system ref:feature/x # path:./y\n", None),
            ("jq 1.6\njq path:./evil\n", Some(2)),
            ("jq\t1.5 path:/evil\r\n", Some(1)),
            ("jq 1.6/../../../../project/evil\n", Some(1)),
            ("jq {{exec(command='x')}}", Some(1)),
        ] {
            assert_eq!(naming_line(text, VersionSyntax::Tools), line, "{text}");
        }
        for (text, line) in [("lts/iron\n", None), ("20.1", None), ("path:./evil", Some(1)), ("../evil", Some(1))] {
            assert_eq!(naming_line(text, VersionSyntax::Version), line, "{text}");
        }
    }

    #[test]
    fn settings_other_than_versions_are_found() {
        let plain = "# tools\n[tools]\njq = \"1.6\"\nnode = ['20', \"lts\"]\npython = [\n  \"3.12\",\n]\n";
        assert_eq!(naming_line(plain, VersionSyntax::Settings), None);
        let with_tasks = format!("{plain}[tasks.x]\nrun = 'a && b'\n[tools]\njq = \"path:./evil\"\n");
        assert_eq!(naming_line(&with_tasks, VersionSyntax::Settings), Some(11));
        for line in [
            "jq = \"path:./evil\"",
            "jq = { path = \"./evil\" }",
            "\"npm:evil\" = \"1\"",
            "[env]",
            "_.path = ['./bin']",
            "[alias]",
            "jq = 'ubi:evil/jq'",
            "jq = \"\"\"",
            "jq = ['1#', 'path:./evil']",
            "tasks.x = { run = 'x' }",
        ] {
            assert_eq!(naming_line(&format!("{plain}{line}\n"), VersionSyntax::Settings), Some(8), "{line}");
        }
    }
}
