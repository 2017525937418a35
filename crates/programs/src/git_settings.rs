//! Lists the settings of a repository that a plain use of git may read: settings that name no program and do not change which
//! program runs. Git has hundreds of settings and each version adds some, so a list of dangerous settings could not be complete.
//!
//! [`SETTINGS`], [`USERS_SETTINGS`] and [`VARIABLES`] list what is overridden in every plain use.

/// Harmless variables by section, in lower case, separated by spaces; `*` for all of them. A subsection (`remote.NAME.url`) makes
/// no difference.
const HARMLESS: &[(&str, &str)] = &[
    ("add", "*"),
    ("advice", "*"),
    ("am", "*"),
    ("apply", "*"),
    ("attr", "*"),
    ("author", "*"),
    ("blame", "*"),
    // Not `mergeoptions`: a strategy may be a program.
    (
        "branch",
        "autosetupmerge autosetuprebase description github-pr-owner-number gh-merge-base merge pushremote rebase \
         remote sort vscode-merge-base",
    ),
    ("checkout", "defaultremote guess workers thresholdforparallelism"),
    ("clean", "*"),
    ("clone", "defaultremotename rejectshallow filtersubmodules"),
    ("color", "*"),
    ("column", "*"),
    ("commit", "cleanup gpgsign status verbose"),
    ("committer", "*"),
    ("commitgraph", "*"),
    (
        "core",
        "abbrev alternaterefsprefixes autocrlf bare bigfilethreshold checkroundtripencoding \
         checkstat commentchar commentstring commitgraph compression createobject deltabasecachelimit \
         disambiguate eol filemode filesreflocktimeout fsmonitorhookversion fscache fsync \
         fsyncmethod fsyncobjectfiles hidedotfiles ignorecase ignorestat logallrefupdates longpaths \
         loosecompression lockfilepid maxtreedepth multipackindex notesref packedgitlimit packedgitwindowsize \
         packedrefstimeout precomposeunicode preloadindex protecthfs protectntfs quotepath \
         repositoryformatversion safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex \
         streamingthreshold symlinks trustctime untrackedcache usereplacerefs warnambiguousrefs whitespace \
         worktree",
    ),
    // A user name, or how an address is compared. `helper` is reset, and the user's own helper is added.
    ("credential", "helper username usehttppath"),
    (
        "diff",
        "algorithm autorefreshindex binary cachetextconv colormoved colormovedws context dirstat dstprefix \
         funcname guitool ignoresubmodules indentheuristic interhunkcontext mnemonicprefix noprefix \
         relative renamelimit renames srcprefix statgraphwidth statnamewidth submodule suppressblankempty tool \
         trustexitcode wordregex wserrorhighlight xfuncname",
    ),
    ("extensions", "*"),
    ("fastimport", "*"),
    ("feature", "*"),
    (
        "fetch",
        "all fsckobjects negotiationalgorithm output parallel prune prunetags recursesubmodules showforcedupdates \
         unpacklimit writecommitgraph",
    ),
    ("filter", "required"),
    ("format", "*"),
    ("fsck", "*"),
    (
        "gc",
        "aggressivedepth aggressivewindow auto autodetach autopacklimit bigpackthreshold cruftpacks logexpiry \
         packrefs pruneexpire reflogexpire reflogexpireunreachable rerereresolved rerereunresolved \
         worktreepruneexpire writecommitgraph",
    ),
    ("gpg", "format mintrustlevel"),
    ("grep", "*"),
    (
        "http",
        // The other settings determine the server of a connection and how it is verified: see [`neutral_connection`]. All of
        // curl's TLS libraries check certificates.
        "extraheader keepalivecount keepaliveidle keepaliveinterval lowspeedlimit lowspeedtime maxrequests \
         minsessions noepsv pinnedpubkey postbuffer sslbackend useragent version",
    ),
    ("i18n", "*"),
    // The content of each included file is listed and checked like other settings.
    ("include", "*"),
    ("includeif", "*"),
    ("index", "*"),
    ("init", "defaultbranch defaultobjectformat defaultrefformat"),
    ("interactive", "singlekey"),
    (
        "lfs",
        "access basictransfersonly concurrenttransfers fetchexclude fetchinclude locksverify \
         repositoryformatversion url",
    ),
    ("log", "*"),
    ("lsrefs", "*"),
    ("mailmap", "*"),
    ("mailinfo", "*"),
    ("maintenance", "*"),
    (
        "merge",
        "autostash branchdesc conflictstyle default defaulttoupstream directoryrenames ff guitool log name \
         recursive renamelimit renames renormalize stat suppressdest tool verbosity verifysignatures",
    ),
    ("notes", "*"),
    ("pack", "*"),
    ("pretty", "*"),
    ("promisor", "*"),
    ("protocol", "version"),
    ("pull", "ff rebase"),
    (
        "push",
        "autosetupremote default followtags gpgsign negotiate pushoption recursesubmodules usebitmaps \
         useforceifincludes",
    ),
    // Not `instructionformat`, which adds lines to the list of steps.
    (
        "rebase",
        "abbreviatecommands autosquash autostash backend forkpoint maxlabellength missingcommitscheck \
         rebasemerges reschedulefailedexec stat updaterefs",
    ),
    ("receive", "*"),
    (
        "remote",
        "fetch followremotehead gh-resolved glab-resolved mirror partialclonefilter promisor prune prunetags push \
         pushdefault pushurl skipdefaultupdate skipfetchall tagopt url",
    ),
    ("remotes", "*"),
    ("repack", "*"),
    ("rerere", "*"),
    ("revert", "*"),
    // Git reads these only from the user's own files.
    ("safe", "*"),
    // Includes its hook.
    ("uploadpack", "*"),
    ("showbranch", "*"),
    ("sparse", "*"),
    ("ssh", "variant"),
    ("stash", "*"),
    ("status", "*"),
    (
        "submodule",
        // The repositories that they fetch are checked like this one.
        "active alternateerrorstrategy alternatelocation branch fetchjobs fetchrecursesubmodules ignore \
         path propagatebranches recurse shallow update url",
    ),
    ("tag", "*"),
    ("tar", "umask"),
    ("trailer", "ifexists ifmissing key separators where"),
    ("transfer", "*"),
    ("uploadarchive", "*"),
    ("url", "insteadof pushinsteadof"),
    ("user", "*"),
    ("versionsort", "*"),
    ("worktree", "*"),
];

/// Value for a setting with a TLS file: a path that does not exist. Curl quotes the path in its error when it cannot open the
/// file.
const NO_FILE: &str = "/dev/null/pi: the repository sets a TLS file; exec:git * permits it";

/// Replacement values for settings of connections that a repository must not choose, by section and variable. Git sends the
/// user's credentials through a proxy and to a server that a certificate identifies, and writes them into a cookie file.
const NEUTRAL_CONNECTION: &[(&str, &str, &str)] = &[
    ("credential", "protectprotocol", "true"),
    ("credential", "sanitizeprompt", "true"),
    ("http", "cookiefile", ""),
    ("http", "curloptresolve", ""),
    ("http", "delegation", "none"),
    ("http", "emptyauth", "auto"),
    ("http", "followredirects", "initial"),
    ("http", "proactiveauth", "none"),
    ("http", "proxy", ""),
    ("http", "proxyauthmethod", "anyauth"),
    ("http", "proxysslcainfo", NO_FILE),
    ("http", "proxysslcert", NO_FILE),
    ("http", "proxysslkey", NO_FILE),
    ("http", "savecookies", "false"),
    ("http", "schannelcheckrevoke", "true"),
    ("http", "sslcainfo", NO_FILE),
    ("http", "sslcapath", NO_FILE),
    ("http", "sslcert", NO_FILE),
    ("http", "sslcipherlist", ""),
    ("http", "sslkey", NO_FILE),
    ("http", "sslverify", "true"),
    ("http", "sslversion", ""),
    ("imap", "sslverify", "true"),
    ("remote", "proxy", ""),
    ("remote", "proxyauthmethod", "anyauth"),
    // An empty value would disable the check.
    ("sendemail", "smtpsslcertpath", NO_FILE),
];

/// Replacement values that name no file, for settings whose file git reads and may quote, in an error or in its output.
const NEUTRAL_FILES: &[(&str, &str, &str)] = &[
    ("commit", "template", "/dev/null"),
    ("core", "attributesfile", "/dev/null"),
    ("core", "excludesfile", "/dev/null"),
    ("diff", "orderfile", "/dev/null"),
    ("fetch", "skiplist", "/dev/null"),
    ("format", "signaturefile", "/dev/null"),
    ("fsck", "skiplist", "/dev/null"),
    ("gpg", "allowedsignersfile", "/dev/null"),
    ("gpg", "revocationfile", "/dev/null"),
    ("mailmap", "file", "/dev/null"),
    ("receive", "skiplist", "/dev/null"),
];

/// Programs that are known to run git, in addition to programs named `git-NAME`.
const RUN_GIT: &[&str] = &[
    "act",
    "bazel",
    "bazelisk",
    "biome",
    "bower",
    "brew",
    "buck2",
    "bun",
    "bundle",
    "bundler",
    "bunx",
    "cabal",
    "cargo",
    "changeset",
    "cmake",
    "commitizen",
    "commitlint",
    "composer",
    "conan",
    "cpack",
    "ctest",
    "cz",
    "dart",
    "deno",
    "diff-so-fancy",
    "dvc",
    "flutter",
    "gem",
    "gh",
    "gitk",
    "gitleaks",
    "gitui",
    "glab",
    "go",
    "golangci-lint",
    "goreleaser",
    "gradle",
    "helm",
    "hg",
    "hub",
    "jest",
    "jj",
    "kubectl",
    "kustomize",
    "lazygit",
    "lefthook",
    "lerna",
    "lint-staged",
    "meson",
    "mix",
    "mvn",
    "nix",
    "npm",
    "npx",
    "nx",
    "packer",
    "pdm",
    "pip",
    "pipenv",
    "pipx",
    "pnpm",
    "pnpx",
    "pod",
    "poetry",
    "pre-commit",
    "rebar3",
    "release-it",
    "repo",
    "rush",
    "scalar",
    "semantic-release",
    "shards",
    "skaffold",
    "stack",
    "standard-version",
    "stg",
    "swift",
    "terraform",
    "terragrunt",
    "tig",
    "tofu",
    "trufflehog",
    "turbo",
    "uv",
    "uvx",
    "vcpkg",
    "vitest",
    "west",
    "yarn",
    "zig",
];

/// Sections in which other tools store settings, too. All variables that git reads in these sections are listed.
const SHARED: &[&str] = &["branch", "credential", "filter", "http", "lfs", "remote"];

/// Returns whether a section belongs to git, so that an unlisted variable in it may have a meaning for git.
pub fn is_gits_own(section: &str) -> bool {
    let is_known = section == "hook" || HARMLESS.iter().any(|(known, _)| *known == section);
    is_known && !SHARED.contains(&section)
}

/// Returns whether a setting, by its section and variable, names no program.
pub fn is_harmless(section: &str, variable: &str) -> bool {
    HARMLESS.iter().any(|(known, variables)| {
        *known == section && (*variables == "*" || variables.split_whitespace().any(|known| known == variable))
    })
}

/// Returns the value to use for a setting of a connection if the user's own configuration has none.
pub fn neutral_connection(section: &str, variable: &str) -> Option<&'static str> {
    let is_it = |&&(known, name, _): &&(&str, &str, &str)| (known, name) == (section, variable);
    NEUTRAL_CONNECTION.iter().find(is_it).map(|(.., neutral)| *neutral)
}

/// Returns the value to use for a setting that names a file if the user's own configuration has none.
pub fn neutral_file(section: &str, variable: &str) -> Option<&'static str> {
    let is_it = |&&(known, name, _): &&(&str, &str, &str)| (known, name) == (section, variable);
    NEUTRAL_FILES.iter().find(is_it).map(|(.., neutral)| *neutral)
}

/// Returns the key that sets for all servers what a key sets for one server: `http.proxy` for `http.ADDRESS.proxy` and
/// `remote.NAME.proxy`.
pub fn general(key: &str) -> Option<String> {
    let (section, rest) = key.split_once('.')?;
    let (_, variable) = rest.rsplit_once('.')?;
    neutral_connection(section, variable)?;
    let section = if section == "remote" { "http" } else { section };
    Some(format!("{section}.{variable}"))
}

/// Returns whether a program, by its name without a version, runs git.
pub fn runs_git(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("git-") || RUN_GIT.binary_search(&&*name).is_ok()
}

/// Commands that change files of the work tree, and may thereby change an included configuration file while they run.
pub const CHANGE_FILES: &[&str] = &[
    "am",
    "apply",
    "bisect",
    "checkout",
    "cherry-pick",
    "clone",
    "merge",
    "pull",
    "rebase",
    "reset",
    "restore",
    "revert",
    "stash",
    "submodule",
    "switch",
    "worktree",
];

/// Variables of git that take precedence over settings, with a value that runs nothing.
pub const VARIABLES: &[(&str, &str)] = &[
    ("GIT_ASKPASS", ""),
    ("GIT_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    ("GIT_PROXY_COMMAND", ""),
    ("GIT_SEQUENCE_EDITOR", ":"),
];

/// Settings that are always overridden, regardless of the configuration.
pub const SETTINGS: &[(&str, &str)] = &[
    ("core.askPass", ""),
    ("core.editor", ":"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("diff.submodule", "short"),
    // A submodule has its own settings, and a plain use of git does not name the repositories from which submodules are fetched.
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("submodule.recurse", "false"),
    // It copies files that `.git/MERGE_RR` names into the repository.
    ("rerere.enabled", "false"),
    // Any other protocol is a program of that name.
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "user"),
    ("protocol.git.allow", "always"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("protocol.ssh.allow", "always"),
    ("sequence.editor", ":"),
];

/// Settings that are reset to the user's value, or to git's default.
pub const USERS_SETTINGS: &[(&str, &str)] = &[
    ("core.sshCommand", "ssh"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.program", "gpg"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.x509.program", "gpgsm"),
];

/// Git's built-in merge strategies. Any other is the program `git-merge-NAME`.
pub const STRATEGIES: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_run_git_are_sorted() {
        assert!(RUN_GIT.is_sorted());
        assert!(["go", "gh", "git-lfs", "Cargo"].iter().all(|name| runs_git(name)) && !runs_git("ls"));
    }

    #[test]
    fn connections_are_not_harmless() {
        for (section, variable, _) in NEUTRAL_CONNECTION {
            assert!(!is_harmless(section, variable), "{section}.{variable}");
        }
        assert_eq!(general("http.https://a.example/x.proxy").as_deref(), Some("http.proxy"));
        assert_eq!(general("remote.origin.proxy").as_deref(), Some("http.proxy"));
        assert_eq!([general("http.proxy"), general("remote.origin.url")], [None, None]);
    }
}
