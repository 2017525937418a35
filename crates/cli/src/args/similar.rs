//! Suggestions for misspelt options and subcommands.

use super::Cli;
use pijs_runtime::{UserError, similar, similar_names};
use std::ffi::OsString;

/// Minimum length in letters of a command whose misspelling is recognised regardless of the following words. The misspelling of a
/// shorter one is recognised only alone or before one of its subcommands: `lint`, which is similar to `list`, may well be a
/// prompt.
const LONG_COMMAND: usize = 5;
/// Minimum length in letters of a command for which any edit is recognised as a misspelling. For a shorter one, only additional
/// letters at the end or swapped letters are: `next` is not a misspelt `ext`.
const SHORTEST_COMMAND: usize = 4;

/// Names of commands in other package managers.
const SYNONYMS: [(&str, &str); 2] = [("ls", "list"), ("rm", "remove")];

/// Returns the options that are most similar to `--name`, as a phrase. Considers pi's own options and the `registered` ones of
/// extensions.
pub(crate) fn similar_option(name: &str, registered: &[String]) -> Option<String> {
    let command = <Cli as clap::CommandFactory>::command();
    let own = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
    // clap adds this option only at parse time.
    let own = own.chain(["help"]);
    similar_names(name, own.chain(registered.iter().map(String::as_str)), |found| format!("--{found}"))
}

/// Refuses a misspelt `--help` or `--version`, because the user does not want a session.
pub(crate) fn misspelt_help(flags: &[super::ExtensionFlag]) -> Result<(), UserError> {
    let meant = flags.iter().find_map(|flag| Some((&flag.name, similar(&flag.name, ["help", "version"])?)));
    match meant {
        Some((name, meant)) => Err(UserError::usage(format!("Unknown option: --{name}"))
            .help(format!("did you mean --{meant}? pi --help lists the options; extensions may register more"))),
        None => Ok(()),
    }
}

/// Refuses a command line that begins with a misspelt subcommand, which would be sent to the model as a prompt.
pub(crate) fn misspelt_command(argv: &[OsString]) -> Result<(), UserError> {
    let command = <Cli as clap::CommandFactory>::command();
    let words: Vec<&str> = argv.iter().skip(1).map_while(|word| word.to_str()).collect();
    // An option is not a misspelt command, however similar: `--rules` is not `rules`.
    let Some((&first, rest)) = words.split_first().filter(|(first, _)| !first.starts_with('-')) else { return Ok(()) };
    let Some(called) = called(&command, first) else {
        return match meant(&command, first, rest) {
            Some(found) => Err(UserError::usage(format!("`{first}` is not a command of pi"))
                .help(format!("did you mean: pi {found}? To send it to the model: pi -- {first}"))),
            None => Ok(()),
        };
    };
    // A subcommand with a name argument would take one of its own misspelt subcommands as the name.
    let (mut path, mut command, mut rest) = (first.to_owned(), called, rest);
    while let Some((&word, more)) = rest.split_first() {
        match self::called(command, word) {
            Some(called) => (command, rest) = (called, more),
            None if more.iter().any(|word| !word.starts_with('-')) => {
                let names = command.get_subcommands().map(clap::Command::get_name);
                let Some(found) = similar(word, names) else { return Ok(()) };
                return Err(UserError::usage(format!("`{word}` is not a command of pi {path}"))
                    .help(format!("did you mean: pi {path} {found}?")));
            }
            None => return Ok(()),
        }
        path = format!("{path} {word}");
    }
    Ok(())
}

fn called<'a>(command: &'a clap::Command, name: &str) -> Option<&'a clap::Command> {
    command
        .get_subcommands()
        .find(|known| known.get_name() == name || known.get_all_aliases().any(|alias| alias == name))
}

/// Returns the subcommand that a word is probably a misspelling of.
fn meant<'a>(command: &'a clap::Command, word: &str, rest: &[&str]) -> Option<&'a str> {
    let own = || command.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name);
    // clap adds this subcommand only at parse time.
    let names = || own().chain(["help"]);
    let said = rest.iter().filter(|word| !word.starts_with('-')).count();
    if let Some((_, meant)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == word)
        && said <= 1
    {
        return names().find(|name| name == meant);
    }
    let aliases = command.get_subcommands().flat_map(clap::Command::get_all_aliases);
    let long = similar(word, names().chain(aliases).filter(|name| name.len() >= LONG_COMMAND));
    let is_slip = |name: &&str| {
        if name.len() < SHORTEST_COMMAND {
            let is_longer = word.len() == name.len() + 1 && word.starts_with(*name);
            return word != *name && (is_longer || is_reordered(word, name));
        }
        let is_short = (SHORTEST_COMMAND..LONG_COMMAND).contains(&name.len());
        // A substituted letter results in a different word: `last`, `lint`, `lift`.
        is_short
            && strsim::damerau_levenshtein(word, name) == 1
            && (word.len() != name.len() || is_reordered(word, name))
    };
    let next = rest.iter().find(|word| !word.starts_with('-'));
    // `tap info x` is a command line; `tap the keyboard` is a prompt.
    let has_subcommand = |name: &str| {
        let subcommand = |next: &&str| called(command, name).is_some_and(|known| called(known, next).is_some());
        next.is_none_or(subcommand)
    };
    let short = || names().find(|name| is_slip(name) && has_subcommand(name));
    long.or_else(short)
}

fn is_reordered(word: &str, name: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(word) == sorted(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised() {
        assert_eq!(similar_option("modle", &[]).as_deref(), Some("--model or --mode"), "as near");
        assert_eq!(similar_option("no-extension", &[]).as_deref(), Some("--no-extensions"));
        assert_eq!(similar_option("plna", &["plan".to_owned()]).as_deref(), Some("--plan"));
        assert_eq!(similar_option("helpp", &[]).as_deref(), Some("--help"));
        assert_eq!(similar_option("frobnicate", &[]), None);
    }

    #[test]
    fn misspelt_commands_are_refused_and_prompts_are_not() {
        let refused = |line: &str| {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            misspelt_command(&argv).is_err()
        };
        for line in [
            "pi instal pi-ttsr",
            "pi udpate",
            "pi isntall ./x",
            "pi lst",
            "pi lits",
            "pi lisst",
            "pi ls",
            "pi ls --json",
            "pi rm x",
            "pi unisntall x",
            "pi hepl",
            "pi helpp",
            "pi exts",
            "pi mpc",
            "pi tap info x",
            "pi rule list",
            "pi mpc add x",
            "pi ext grants alow x exec",
            "pi ext grnats allow x exec",
        ] {
            assert!(refused(line), "{line}");
        }
        for line in [
            "pi",
            "pi install x",
            "pi uninstall x",
            "pi hello",
            "pi -p instal",
            "pi heap",
            "pi held",
            "pi text",
            "pi exts of this",
            "pi help",
            "pi lint",
            "pi lint src",
            "pi lst of files",
            "pi rm the old file",
            "pi next",
            "pi tap the keyboard",
            "pi test",
            "pi -- instal",
            "pi ext grants alow",
            "pi ext grants allow x exec",
            "pi ext explain alow exec git",
        ] {
            assert!(!refused(line), "{line}");
        }
    }

    #[test]
    fn grants_of_agents_cover_no_command() {
        let command = <Cli as clap::CommandFactory>::command();
        let names = command.get_subcommands().flat_map(|known| known.get_all_aliases().chain([known.get_name()]));
        let names: Vec<&str> = names.collect();
        assert!(names.contains(&"trust") && names.contains(&"uninstall"));
        for name in names {
            assert!(!pijs_programs::is_plain("pi", &[name], 0), "{name} is missing in COMMANDS_OF_PI");
        }
    }

    #[test]
    fn no_option_is_taken_for_a_command() {
        let command = <Cli as clap::CommandFactory>::command();
        let options: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(options.contains(&"rules"));
        for option in options {
            for rest in [&[][..], &["-p", "hi"], &["hi"]] {
                let argv: Vec<OsString> =
                    ["pi", &format!("--{option}")].iter().chain(rest).map(OsString::from).collect();
                assert!(misspelt_command(&argv).is_ok(), "{argv:?}");
            }
        }
    }
}
