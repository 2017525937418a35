//! The plain uses of git.
//!
//! Commands that write files at paths of their arguments or input (`apply`, `clone`, `worktree add`, `mv`) are not plain under
//! the bare name, because another program may run these files. The following are not plain either: `--no-index`, which reads any
//! file; `diff` of a path outside of the folder, for which git assumes that option; continuing an interrupted operation
//! (`--continue`, `--skip`), whose state in the repository is a list of commands; and `--recurse-submodules`, because a submodule
//! has its own settings.

use super::{PlainTool, PlainUse, Syntax, leads_out, named, names_a_helper, names_git_folder, plain, tool};
use crate::credentials::GIT_OPTIONS_WITH_VALUE;

pub(super) const GIT: PlainTool = tool(&["git"], Syntax::Letters, USES)
    .with_front("--no-pager --no-optional-locks --literal-pathspecs --no-replace-objects", GIT_OPTIONS_WITH_VALUE);

const DIFF: &str = "-p -u -s -U: -X: -z -B: -M: -C: -D -l: -S: -G: -R -a -b -w -I: -W -m -c -t -# \
    --patch --no-patch --unified --raw --patch-with-raw --patch-with-stat --indent-heuristic --no-indent-heuristic \
    --minimal --patience --histogram --anchored --diff-algorithm --stat --stat-width --stat-name-width --stat-count \
    --stat-graph-width --compact-summary --numstat --shortstat --dirstat --dirstat-by-file --cumulative --summary \
    --name-only --name-status --submodule=short|log --color --no-color --color-moved --no-color-moved --color-moved-ws \
    --no-color-moved-ws --word-diff --word-diff-regex --color-words --renames --no-renames --rename-empty \
    --no-rename-empty --check --ws-error-highlight --full-index --binary --abbrev --no-abbrev --break-rewrites \
    --find-renames --find-copies --find-copies-harder --irreversible-delete --diff-filter --find-object --pickaxe-all \
    --pickaxe-regex --skip-to --rotate-to --relative --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol \
    --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines --inter-hunk-context \
    --function-context --exit-code --quiet --no-ext-diff --no-textconv --ignore-submodules[=all|dirty] --src-prefix \
    --dst-prefix --no-prefix --default-prefix --line-prefix --output-indicator-new --output-indicator-old \
    --output-indicator-context --ita-invisible-in-index --ita-visible-in-index --merge-base --cc \
    --combined-all-paths --diff-merges --no-diff-merges --remerge-diff --dd";

const LOG: &str = "-n: -L: -i -E -F -P -g -q --follow --decorate --no-decorate --decorate-refs \
    --decorate-refs-exclude --clear-decorations --source --mailmap --no-mailmap --use-mailmap --full-diff --log-size \
    --max-count --skip --since --after --until --before --since-as-filter --author --committer --grep --grep-reflog \
    --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings --perl-regexp \
    --remove-empty --merges --no-merges --min-parents --max-parents --no-min-parents --no-max-parents --first-parent \
    --exclude-first-parent-only --not --all --branches --tags --remotes --glob --exclude --exclude-hidden --reflog \
    --single-worktree --ignore-missing --bisect --stdin --cherry-mark --cherry-pick --left-only --right-only --cherry \
    --walk-reflogs --merge --boundary --simplify-by-decoration --show-pulls --full-history --dense --sparse \
    --simplify-merges --ancestry-path --date-order --author-date-order --topo-order --reverse --no-walk --do-walk \
    --pretty --format --abbrev-commit --no-abbrev-commit --oneline --encoding --expand-tabs --no-expand-tabs --notes \
    --no-notes --show-notes --no-standard-notes --standard-notes --show-signature --relative-date --date --parents \
    --children --left-right --graph --no-graph --show-linear-break --count --timestamp --header --progress --root";

const FETCH: &str = "-a -f -k -p -P -t -j: -q -v -4 -6 --all --no-all --append --atomic --depth --deepen \
    --shallow-since --shallow-exclude --unshallow --update-shallow --dry-run --porcelain --write-fetch-head \
    --no-write-fetch-head --force --keep --multiple --auto-maintenance --no-auto-maintenance --auto-gc --no-auto-gc \
    --write-commit-graph --no-write-commit-graph --prune --prune-tags --no-prune --no-tags --tags --refmap --jobs \
    --no-recurse-submodules --set-upstream --quiet --verbose --progress --no-progress --ipv4 --ipv6 --filter --refetch \
    --negotiation-tip --show-forced-updates --no-show-forced-updates";

const STRATEGIES: &str = "-X=ours|theirs|patience|histogram|minimal|ignore-space-change|ignore-all-space|\
    ignore-space-at-eol|ignore-cr-at-eol|renormalize|no-renormalize|find-renames|no-renames \
    --strategy-option=ours|theirs|patience|histogram|minimal|ignore-space-change|ignore-all-space|\
    ignore-space-at-eol|ignore-cr-at-eol|renormalize|no-renormalize|find-renames|no-renames \
    --strategy=ours|ort|recursive|resolve|octopus|subtree";

/// Strategies that git implements; for any other strategy it runs the program `git-merge-NAME`.
const BY_STRATEGY: &str = "-s=ours|ort|recursive|resolve|octopus|subtree";

const SIGN: &str = "-S: --gpg-sign --no-gpg-sign";

const MERGE: &str = "-n -m: -F: -q -v --commit --no-commit --ff --no-ff --ff-only --squash --no-squash --stat \
    --no-stat --compact-summary --log --no-log --file --into-name --no-edit --signoff --no-signoff --verify-signatures \
    --no-verify-signatures --verify --no-verify --summary --no-summary --quiet --verbose --progress --no-progress \
    --autostash --no-autostash --allow-unrelated-histories --abort --quit --continue --rerere-autoupdate \
    --no-rerere-autoupdate --overwrite-ignore --no-overwrite-ignore --cleanup";

const PATHSPECS: &str = "--pathspec-from-file --pathspec-file-nul";

const LIST_REFS: &str = "--sort --format --color --no-color --contains --no-contains --merged --no-merged --points-at \
    --ignore-case --omit-empty --column --no-column";

const USES: &[PlainUse] = &[
    plain("version", &["--build-options"]),
    plain(
        "add",
        &[
            "-n -v -f -p -u -A -N --dry-run --verbose --force --patch --update --all --no-all --ignore-removal \
             --no-ignore-removal --intent-to-add --refresh --ignore-errors --ignore-missing --renormalize --chmod --sparse",
            PATHSPECS,
        ],
    ),
    plain(
        "blame",
        &["-L: -l -t -f -n -p -s -e -w -M: -C: -S: -c -b --porcelain --line-porcelain --incremental --root \
           --show-stats --show-name --show-number --show-email --date --since --reverse --first-parent --color-lines \
           --color-by-age --abbrev --ignore-rev --ignore-revs-file --score-debug --encoding --minimal --progress \
           --no-progress"],
    ),
    plain(
        "branch",
        &[
            "-a -r -l -v -d -D -m -M -c -C -f -t: -u: -i -q --list --verbose --delete --move --copy --force --all \
             --remotes --track --no-track --set-upstream-to --unset-upstream --show-current --abbrev --no-abbrev \
             --create-reflog --quiet",
            LIST_REFS,
        ],
    ),
    plain(
        "cat-file",
        &["-t -s -p -e -z -Z --batch --batch-check --batch-command --batch-all-objects --buffer --unordered \
           --follow-symlinks --path --use-mailmap --no-use-mailmap --mailmap --allow-unknown-type"],
    ),
    plain("check-ignore", &["-q -v -n -z --quiet --verbose --stdin --non-matching --no-index"]),
    plain(
        "checkout",
        &[
            "-q -f -b: -B: -t -l -d -m -p -# --quiet --force --track --no-track --detach --orphan --ours --theirs --merge \
             --conflict --patch --ignore-skip-worktree-bits --overwrite-ignore --no-overwrite-ignore --progress \
             --no-progress --guess --no-guess --overlay --no-overlay --ignore-other-worktrees",
            PATHSPECS,
        ],
    ),
    plain("cherry", &["-v --abbrev"]),
    plain(
        "cherry-pick",
        &[
            "-x -r -m: -n -s --mainline --no-commit --signoff --ff --allow-empty --allow-empty-message \
             --keep-redundant-commits --empty --abort --quit --no-edit --cleanup --rerere-autoupdate \
             --no-rerere-autoupdate",
            STRATEGIES,
            SIGN,
        ],
    ),
    plain(
        "commit",
        &[
            "-a -p -C: -m: -F: -n -s -v -q -u: -i -o -z --all --patch --reuse-message --message --file --author --date \
             --signoff --no-signoff --trailer --allow-empty --allow-empty-message --cleanup --no-edit --amend \
             --no-post-rewrite --include --only --untracked-files --verbose --quiet --dry-run --status --no-status \
             --short --branch --porcelain --long --null --fixup --squash --reset-author --verify --no-verify",
            PATHSPECS,
            SIGN,
        ],
    ),
    plain("count-objects", &["-v -H --verbose --human-readable"]),
    plain(
        "describe",
        &["--all --tags --contains --abbrev --candidates --exact-match --debug --long --match --exclude --always \
           --first-parent --dirty --broken"],
    ),
    plain("diff", &[DIFF, "--cached --staged --base --ours --theirs"]).without(leads_out),
    plain("diff-files", &[DIFF, "-q"]),
    plain("diff-index", &[DIFF, "--cached"]),
    plain("diff-tree", &[DIFF, "-r -v -q --root --stdin --pretty --format --no-commit-id --always"]),
    plain("fetch", &[FETCH, "-n -u --update-head-ok --stdin --prefetch"]).without(names_a_helper),
    plain("for-each-ref", &[LIST_REFS, "--count --shell --perl --python --tcl --exclude --include-root-refs --stdin"]),
    plain(
        "grep",
        &["-a -I -i -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -A: -B: -C: -W -m: -f: -e: -q -r -# --cached \
           --untracked --exclude-standard --no-exclude-standard --text --ignore-case --word-regexp \
           --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number \
           --column --files-with-matches --name-only --files-without-match --null --only-matching --count --color \
           --no-color --break --heading --show-function --context --after-context --before-context --function-context \
           --max-count --threads --and --or --not --all-match --quiet --max-depth --recursive --no-recursive \
           --no-textconv"],
    ),
    plain("hash-object", &["-w -t: --stdin --stdin-paths --path --no-filters --literally"]),
    plain("init", &["-q -b: --quiet --bare --initial-branch --object-format --ref-format"]),
    plain("log", &[LOG, DIFF]),
    plain(
        "ls-files",
        &["-c -d -o -i -s -u -k -m -z -t -v -f -x: -X: --cached --deleted --others --ignored --stage --unmerged \
           --killed --modified --directory --no-empty-directory --eol --deduplicate --exclude --exclude-from \
           --exclude-per-directory --exclude-standard --error-unmatch --with-tree --full-name --abbrev --format --debug \
           --resolve-undo --sparse"],
    ),
    plain("ls-remote", &["-b -t -q --heads --branches --tags --refs --quiet --exit-code --get-url --sort --symref"])
        .without(names_a_helper),
    plain(
        "ls-tree",
        &["-d -r -t -l -z --name-only --name-status --object-only --full-name --full-tree --abbrev --long --format"],
    ),
    plain("merge", &[MERGE, BY_STRATEGY, STRATEGIES, SIGN]),
    plain("merge-base", &["-a --all --octopus --independent --is-ancestor --fork-point"]),
    plain(
        "name-rev",
        &["--tags --refs --exclude --all --stdin --annotate-stdin --name-only --undefined --no-undefined --always"],
    ),
    plain("pull", &[FETCH, MERGE, "-r: --rebase --no-rebase", BY_STRATEGY, STRATEGIES, SIGN]).without(names_a_helper),
    plain(
        "push",
        &["-n -d -f -u -q -v -4 -6 --all --branches --mirror --tags --follow-tags --no-follow-tags --atomic --no-atomic \
           --dry-run --delete --force --force-with-lease --no-force-with-lease --force-if-includes \
           --no-force-if-includes --set-upstream --quiet --verbose --progress --no-progress --prune --porcelain --thin \
           --no-thin --no-signed --verify --no-verify --no-recurse-submodules --ipv4 --ipv6"],
    )
    .without(names_a_helper),
    plain(
        "rebase",
        &[
            "-i -m -q -v -n -C: -f -r --interactive --merge --apply --onto --keep-base --root --abort \
             --quit --show-current-patch --quiet --verbose --stat --no-stat --verify --no-verify --no-ff --force-rebase \
             --fork-point --no-fork-point --ignore-whitespace --whitespace --committer-date-is-author-date --ignore-date \
             --reset-author-date --signoff --rebase-merges --no-rebase-merges --autosquash --no-autosquash --autostash \
             --no-autostash --empty --keep-empty --no-keep-empty --update-refs --no-update-refs --allow-empty-message",
            BY_STRATEGY,
            STRATEGIES,
            SIGN,
        ],
    ),
    plain("reflog", &[LOG, DIFF]),
    plain("remote get-url|show", &["-v -n --verbose --push --all"]),
    named(
        "remote add|remove|rm|rename|set-url|set-head|set-branches|prune|update",
        &["-t: -m: -f -v -p -n -a -d --fetch --tags --no-tags --prune --push --add --delete --auto --dry-run"],
    )
    .without(names_a_helper),
    plain("remote", &["-v --verbose"]).without(is_a_word),
    plain(
        "reset",
        &["-q -N -p --quiet --soft --mixed --hard --merge --keep --patch --refresh --no-refresh --intent-to-add", PATHSPECS],
    ),
    plain(
        "restore",
        &[
            "-s: -S -W -p -q -m -# --source --staged --worktree --patch --quiet --progress --no-progress --ours --theirs \
             --merge --conflict --ignore-unmerged --ignore-skip-worktree-bits --overlay --no-overlay",
            PATHSPECS,
        ],
    ),
    plain(
        "rev-list",
        &[
            LOG,
            DIFF,
            "--objects --objects-edge --disk-usage --use-bitmap-index --filter --no-filter --no-object-names \
             --object-names --missing --unpacked --in-commit-order --bisect-vars --bisect-all --no-commit-header",
        ],
    ),
    plain(
        "rev-parse",
        &["-q --show-toplevel --git-dir --absolute-git-dir --git-common-dir --is-inside-git-dir --is-inside-work-tree \
           --is-bare-repository --is-shallow-repository --show-prefix --show-cdup --show-superproject-working-tree \
           --show-object-format --show-ref-format --abbrev-ref --symbolic-full-name --symbolic --short --verify --quiet \
           --revs-only --no-revs --flags --no-flags --default --prefix --not --all --branches --tags --remotes --glob \
           --exclude --disambiguate --since --after --until --before --path-format --git-path --shared-index-path \
           --resolve-git-dir --local-env-vars --sq --end-of-options --keep-dashdash"],
    ),
    plain(
        "revert",
        &[
            "-n -m: -s --no-commit --no-edit --mainline --signoff --reference --abort --quit --cleanup \
             --rerere-autoupdate --no-rerere-autoupdate",
            STRATEGIES,
            SIGN,
        ],
    ),
    plain("rm", &["-f -n -r -q --cached --dry-run --force --quiet --ignore-unmatch --sparse", PATHSPECS]),
    // The command's own options come before the options of a log.
    plain("shortlog", &["-n -s -e -c -w: --numbered --summary --email --group", LOG]),
    plain("show", &[LOG, DIFF]),
    plain(
        "show-ref",
        &["-d -s: -q --head --heads --branches --tags --dereference --hash --verify --abbrev --quiet --exclude-existing \
           --exists"],
    ),
    plain(
        "stash",
        &[
            "-k -q -m: -S --quiet --keep-index --no-keep-index --include-untracked --only-untracked --all --message --staged \
             --index --no-index",
            DIFF,
            PATHSPECS,
        ],
    ),
    plain(
        "status",
        &["-s -b -v -u: -z -M: --short --branch --show-stash --porcelain --long --verbose --untracked-files \
           --ignore-submodules[=all|dirty] --ignored --null --column --no-column --ahead-behind --no-ahead-behind \
           --renames --no-renames --find-renames"],
    ),
    plain(
        "switch",
        &["-c: -C: -d -t -f -m -q --create --force-create --detach --track --no-track --force --discard-changes --merge \
           --conflict --quiet --progress --no-progress --orphan --guess --no-guess --ignore-other-worktrees \
           --overwrite-ignore --no-overwrite-ignore"],
    ),
    plain("symbolic-ref", &["-q -d -m: --quiet --short --delete --recurse --no-recurse"]),
    plain(
        "tag",
        &[
            "-l -n: -a -s -u: -f -d -v -m: -F: -i --list --annotate --sign --no-sign --local-user --force --delete \
             --verify --message --file --cleanup --create-reflog",
            LIST_REFS,
        ],
    ),
    plain("worktree list", &["-v -z --porcelain --verbose"]),
    // Permitted only if a grant names them.
    named("am", &["-3 -q -s -k -i -# --3way --no-3way --abort --continue --skip --quit --quiet --signoff --keep"]),
    named(
        "apply",
        &["-3 -R -z -p: -C: -N -q -v --stat --numstat --summary --check --index --cached --3way --reverse --reject \
           --unidiff-zero --recount --whitespace --ignore-space-change --ignore-whitespace --intent-to-add --verbose \
           --quiet --exclude --include --allow-empty --inaccurate-eof --no-add --apply"],
    ),
    named("archive", &["-l -v -# --format=tar|zip|tgz|tar.gz --prefix --list --verbose --worktree-attributes"]),
    named(
        "bisect good|bad|old|new|skip|start|reset|log|terms|next",
        &["--first-parent --no-checkout --term-old --term-new --term-good --term-bad"],
    ),
    named("clean", &["-n -d -f -x -X -q -e: --dry-run --force --quiet --exclude"]),
    named(
        "clone",
        &["-l -s -q -v -n -b: -o: -j: --local --no-local --no-hardlinks --shared --quiet --verbose --progress \
           --no-checkout --bare --mirror --origin --branch --depth --shallow-since --shallow-exclude --single-branch \
           --no-single-branch --tags --no-tags --jobs --filter --sparse --dissociate --ref-format"],
    )
    .without(names_a_helper),
    named("commit-tree", &["-p: -m: -F:", SIGN]),
    named(
        "config --get|--get-all|--get-regexp|--list|-l|get|list",
        &["-z -l --global --local --system --worktree --name-only --null --show-origin --show-scope --bool --int --type \
           --default --all --regexp --path --includes --no-includes"],
    ),
    named("format-patch", &[LOG, DIFF, "-N -v: -k --stdout --numbered --no-numbered --signoff --start-number"]),
    named("fsck", &["--full --strict --no-dangling --unreachable --lost-found --connectivity-only --verbose"]),
    named("gc", &["-q --aggressive --auto --prune --no-prune --quiet --force"]),
    named("mv", &["-f -k -n -v --force --dry-run --verbose"]).without(names_git_folder),
    named("notes list|show|add|append|copy|remove", &["-f -m: -F: --force --message --file --ref"]),
    named("read-tree", &["--empty -m -n --dry-run --reset -i"]),
    named("submodule status|summary", &["-q -n: --quiet --cached --summary-limit"]),
    named(
        "update-index",
        &["-q -z --add --remove --refresh --really-refresh --cacheinfo --force-remove --info-only --stdin --index-info \
           --chmod --assume-unchanged --no-assume-unchanged --skip-worktree --no-skip-worktree --verbose"],
    ),
    named("update-ref", &["-d -m: -z --no-deref --create-reflog --stdin"]),
    named(
        "worktree add|remove|prune|lock|unlock|move",
        &["-b: -B: -f -d -q -n -v --force --detach --checkout --no-checkout --lock --reason --track --no-track --orphan \
           --quiet --dry-run --verbose --expire"],
    ),
    named("write-tree", &["--missing-ok --prefix"]),
];

/// Matches any word: every operand of `git remote` is a command, or an operand of one.
fn is_a_word(arg: &str) -> bool {
    !arg.is_empty() && !arg.starts_with('-')
}
