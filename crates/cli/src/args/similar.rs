//! Names that somebody may have meant: of options and sub-commands that do not exist.

use super::Cli;
use crate::failure::Failure;
use std::ffi::OsString;

/// Edits (a letter more, less, changed or moved by one) up to which a name counts as misspelt; one in a short name.
const MOST_EDITS: usize = 2;

/// Letters of a command that is recognised when it is misspelt: `lint` may well be a prompt beside `list`.
const SHORTEST_COMMAND: usize = 5;

/// The known name that is most like `name`, unless none is.
pub(crate) fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if name.len() < 6 { 1 } else { MOST_EDITS };
    let edits = known.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let found = edits.filter(|(edits, _)| *edits <= most);
    found.min_by_key(|(edits, known)| (*edits, known.len().abs_diff(name.len()), *known)).map(|(_, known)| known)
}

/// The option that is most like `--name`, among pi's own and `registered` ones of extensions.
pub(crate) fn similar_option(name: &str, registered: &[String]) -> Option<String> {
    let command = <Cli as clap::CommandFactory>::command();
    let own = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
    similar(name, own.chain(registered.iter().map(String::as_str))).map(|found| format!("--{found}"))
}

/// Refuses a command line that begins with a misspelt sub-command: as a prompt, it would ask the model.
pub(crate) fn misspelt_command(argv: &[OsString]) -> Result<(), Failure> {
    let command = <Cli as clap::CommandFactory>::command();
    let Some(first) = argv.get(1).and_then(|word| word.to_str()) else { return Ok(()) };
    let names = command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let names = names.filter(|name| name.len() >= SHORTEST_COMMAND);
    match similar(first, names) {
        Some(found) if found != first => Err(Failure::usage(format!("`{first}` is no command of pi"))
            .help(format!("did you mean: pi {found}? To send it to the model: pi -- {first}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised() {
        assert_eq!(similar_option("modle", &[]).as_deref(), Some("--model"));
        assert_eq!(similar_option("no-extension", &[]).as_deref(), Some("--no-extensions"));
        assert_eq!(similar_option("plna", &["plan".to_owned()]).as_deref(), Some("--plan"));
        assert_eq!(similar_option("frobnicate", &[]), None);
    }

    #[test]
    fn only_what_looks_like_a_command_is_taken_for_one() {
        let refused = |line: &str| {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            misspelt_command(&argv).is_err()
        };
        for line in ["pi instal pi-ttsr", "pi udpate", "pi isntall ./x"] {
            assert!(refused(line), "{line}");
        }
        for line in ["pi", "pi install x", "pi hello", "pi -p instal", "pi lint src", "pi test", "pi -- instal"] {
            assert!(!refused(line), "{line}");
        }
    }
}
