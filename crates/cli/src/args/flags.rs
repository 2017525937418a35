//! Removes flags of extensions from the command line before it is parsed.

use super::Cli;
use std::ffi::OsString;

/// A flag for an extension: `--name`, `--name=value` or `--name value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtensionFlag {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

/// pi's options with one dash and several letters, which clap does not support.
const SHORT: [(&str, &str); 8] = [
    ("-ne", "--no-extensions"),
    ("-ns", "--no-skills"),
    ("-np", "--no-prompt-templates"),
    ("-nc", "--no-context-files"),
    ("-nt", "--no-tools"),
    ("-nbt", "--no-builtin-tools"),
    ("-xt", "--exclude-tools"),
    ("-na", "--no-approve"),
];

/// Splits the command line into the arguments for clap and the flags for extensions.
///
/// pi's rules: an unknown `--name` takes the next word as its value unless that starts with `-` or `@`, and the argument of `-p`
/// is a message when it starts with `---`, as YAML front matter does. Messages are moved after a `--`, so that clap does not
/// interpret them. After a subcommand, nothing is removed or moved, so that clap reports mistakes.
pub(crate) fn split_extension_flags(argv: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<ExtensionFlag>) {
    let command = <Cli as clap::CommandFactory>::command();
    let takes_value = |long: &str| {
        command.get_arguments().find(|arg| arg.get_long() == Some(long)).map(|arg| arg.get_action().takes_values())
    };
    let is_short_with_value = |text: &str| {
        let mut letters = text.chars().skip(1);
        let (Some(letter), None) = (letters.next().filter(|_| text.starts_with('-')), letters.next()) else {
            return false;
        };
        command.get_arguments().any(|arg| arg.get_short() == Some(letter) && arg.get_action().takes_values())
    };
    let is_subcommand = |word: &str| word == "help" || command.find_subcommand(word).is_some();

    let mut known = Vec::new();
    let mut flags = Vec::new();
    let mut words = argv.into_iter().peekable();
    known.extend(words.next());
    let mut messages = Vec::new();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            known.push(word);
            continue;
        };
        if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == text) {
            known.push(long.into());
            if takes_value(&long[2..]) == Some(true) {
                known.extend(words.next());
            }
        } else if text == "--" {
            messages.extend(words);
            break;
        } else if messages.is_empty() && is_subcommand(text) {
            known.push(word);
            known.extend(words);
            break;
        } else if matches!(text, "-p" | "--print") {
            known.push(word);
            messages.extend(words.next_if(|next| next.to_str().is_some_and(|next| next.starts_with("---"))));
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, inline) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            match takes_value(name) {
                _ if name == "help" || name == "version" => known.push(word),
                Some(takes) => {
                    let wants_next = takes && inline.is_none();
                    known.push(word);
                    if wants_next {
                        known.extend(words.next());
                    }
                }
                None => {
                    let name = name.to_owned();
                    let value = inline.or_else(|| {
                        words
                            .next_if(|next| next.to_str().is_some_and(|next| !next.starts_with(['-', '@'])))
                            .and_then(|next| next.into_string().ok())
                    });
                    flags.push(ExtensionFlag { name, value });
                }
            }
        } else if is_short_with_value(text) {
            known.push(word);
            known.extend(words.next());
        } else if text.starts_with('-') {
            known.push(word);
        } else {
            messages.push(word);
        }
    }
    if !messages.is_empty() {
        known.push("--".into());
        known.extend(messages);
    }
    (known, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (Vec<String>, Vec<ExtensionFlag>) {
        let (known, flags) = split_extension_flags(line.split(' ').map(OsString::from));
        (known.into_iter().map(|word| word.into_string().expect("made from UTF-8")).collect(), flags)
    }

    fn flag(name: &str, value: Option<&str>) -> ExtensionFlag {
        ExtensionFlag { name: name.into(), value: value.map(str::to_owned) }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn unknown_long_options_are_flags_of_extensions() {
        let (known, flags) = split("pi -p x --plan --depth 3 --level=high --model script:a");
        assert_eq!(known.join(" "), "pi -p --model script:a -- x");
        assert_eq!(flags, [flag("plan", None), flag("depth", Some("3")), flag("level", Some("high"))]);
    }

    #[test]
    fn values_of_known_options_are_left_alone() {
        let (known, flags) = split("pi --model --odd -e --file -p hello");
        assert_eq!(known.join(" "), "pi --model --odd -e --file -p -- hello");
        assert_eq!(flags, []);
    }

    #[test]
    fn a_flag_does_not_swallow_an_option_or_a_file_reference() {
        let (known, flags) = split("pi --plan -p --fast @notes.md");
        assert_eq!(known.join(" "), "pi -p -- @notes.md");
        assert_eq!(flags, [flag("plan", None), flag("fast", None)]);
    }

    #[test]
    fn unknown_options_of_subcommands_are_not_extension_flags() {
        let (known, flags) = split("pi install --nonsense x");
        assert_eq!(known.join(" "), "pi install --nonsense x");
        assert_eq!(flags, []);
    }

    #[test]
    fn the_argument_of_print_may_begin_with_front_matter() {
        let words = ["pi", "-p", "---\nname: plan\n---\nDo it.", "next", "--mode", "json", "--", "--last"];
        let (known, flags) = split_extension_flags(words.map(OsString::from));
        assert_eq!(flags, []);
        assert_eq!(known, ["pi", "-p", "--mode", "json", "--", "---\nname: plan\n---\nDo it.", "next", "--last"]);
        let (known, flags) = split("pi -p -a ---x install");
        assert_eq!((known.join(" "), flags), ("pi -p -a".into(), vec![flag("-x", Some("install"))]));
    }

    #[test]
    fn the_last_of_a_repeated_option_wins() {
        let line = "pi --mode json --mode text --thinking low --thinking high --tools read --tools ls -nt --no-tools --offline --offline \
            --name a -n b -p -p --system-prompt a --system-prompt b --no-session --no-session -a -na -e a -e b";
        let (known, _) = split(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        let run = <Cli as clap::Parser>::try_parse_from(known).expect("pi takes it").run;
        assert_eq!((run.mode, run.thinking.as_deref()), (crate::args::Mode::Text, Some("high")));
        assert_eq!((run.tools.tools.as_deref(), run.session.name.as_deref()), (Some("ls"), Some("b")));
        assert_eq!((run.system_prompt.as_deref(), run.trust()), (Some("b"), Some(false)));
        assert_eq!(run.extensions, ["a", "b"], "what may be repeated is kept");
        let (known, _) = split("pi install -y --yes --registry a --registry b ./x");
        assert!(<Cli as clap::Parser>::try_parse_from(known).is_ok(), "and of subcommands");
    }

    #[test]
    fn short_forms_of_several_letters() {
        let (known, _) = split("pi -ne -p x");
        assert_eq!(known.join(" "), "pi --no-extensions -p -- x");
        let (known, flags) = split("pi -xt --odd -nbt -t read -n --name -p x");
        assert_eq!(known.join(" "), "pi --exclude-tools --odd --no-builtin-tools -t read -n --name -p -- x");
        assert_eq!(flags, []);
    }
}
