//! Lists the plain uses of all programs except git, and the programs without plain uses.

use super::git::GIT;
use super::{
    NOTHING, PlainTool, PlainUse, Syntax, attaches_no_extension, begins_with_plus, begins_with_plus_or_list,
    begins_with_slash_or_list, has_a_scheme, has_network_address, is_no_agent, is_no_file, is_no_network_address,
    is_no_value_for_agent, names_a_helper, names_a_list, plain, tool,
};
use crate::names_a_host;

/// All tools. Each program is in one entry only.
pub(crate) const TOOLS: &[PlainTool] = &[
    GIT,
    // Script runners.
    tool(
        &["node", "nodejs"],
        Syntax::Script,
        &[plain(
            "",
            &["--no-warnings --enable-source-maps --no-deprecation --trace-warnings --trace-deprecation --trace-uncaught \
               --throw-deprecation --pending-deprecation --unhandled-rejections=strict|warn|none|throw|warn-with-error-codes \
               --max-old-space-size=512|1024|2048|4096|8192|16384 --experimental-strip-types --no-experimental-strip-types \
               --experimental-transform-types --experimental-vm-modules --preserve-symlinks --expose-gc --no-addons \
               --experimental-sqlite --experimental-json-modules --use-strict --check -c"],
        )
        .without(is_no_file)],
    ),
    tool(&["bun"], Syntax::ScriptFile, &[plain("", &["--silent --no-install --smol"]).without(is_no_file)])
        .obeying_its_folder(),
    tool(
        &["python", "pypy"],
        Syntax::Script,
        &[plain("", &["-B -E -I -O -P -R -S -s -u -b -d -q -v"]).without(is_no_file)],
    ),
    tool(&["ruby"], Syntax::Script, &[plain("", &["-w --yjit --jit --disable-gems"]).without(is_no_file)]),
    // Agents.
    PI,
    // Files.
    FIND,
    tool(
        &["bsdtar", "gtar", "tar"],
        Syntax::FirstLetters,
        // A list of files (`-T`) may contain options.
        &[plain(
            "",
            &["-x -c -t -r -u -d -A -v -z -j -J -Z -a -k -p -m -h -O -w -P -S -l -o -s -f: -C: -X: -b: -N: -V: \
               --extract --get --create --list --append --update --diff --compare --delete --catenate --concatenate \
               --verbose --gzip --gunzip --ungzip --bzip2 --xz --lzma --zstd --lzip --auto-compress --file --directory \
               --exclude --exclude-from --exclude-vcs --exclude-vcs-ignores --exclude-caches --exclude-tag --keep-old-files \
               --skip-old-files --keep-newer-files --overwrite --unlink-first --no-same-owner --same-owner \
               --no-same-permissions --same-permissions --preserve-permissions --numeric-owner --owner --group --mode \
               --mtime --sort --strip-components --strip --wildcards --no-wildcards --anchored --no-anchored \
               --ignore-case --no-recursion --recursion --null --dereference --hard-dereference --to-stdout --totals \
               --format --one-top-level --touch --warning --sparse --absolute-names --no-xattrs --xattrs --no-acls --acls \
               --no-selinux --ignore-failed-read --blocking-factor --newer --label --full-time --quote-chars --help"],
        )
        .without(names_a_host)],
    ),
    // `-J` passes options to the Java VM, which load code.
    tool(&["jar"], Syntax::FirstLetters, &[plain("", &["-c -t -x -u -f -v -m -e -0 -M"]).without(names_a_list)]),
    tool(&["cpio"], Syntax::Letters, &[plain("", &["-i -o -p -d -u -m -v -t -0 -a -L -l -H: -F: -I: -O: -D: --quiet --extract \
        --create --list --pass-through --make-directories --preserve-modification-time --unconditional --verbose --null \
        --format --file --no-absolute-filenames"]).without(names_a_host)]),
    tool(&["mt"], Syntax::Letters, &[plain("", &["-f:"]).without(names_a_host)]),
    tool(&["install"], Syntax::Letters, &[plain("", &["-m: -d -D -o: -g: -p -v -C -c -t: -T --mode --directory --owner \
        --group --preserve-timestamps --verbose --compare --target-directory --no-target-directory"])]),
    tool(&["sort"], Syntax::Letters, &[plain("", &["-b -d -f -g -i -h -M -n -R -r -V -c -C -m -s -u -z -k: -t: \
        --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort \
        --human-numeric-sort --numeric-sort --random-sort --reverse --sort --version-sort --check --key --merge --stable \
        --field-separator --unique --zero-terminated --parallel"])]),
    tool(&["split"], Syntax::Letters, &[plain("", &["-a: -b: -C: -d -x -e -l: -n: -t: -u --suffix-length \
        --additional-suffix --bytes --line-bytes --numeric-suffixes --hex-suffixes --elide-empty-files --lines --number \
        --separator --unbuffered --verbose"])]),
    tool(&["zip"], Syntax::Letters, &[plain("", &["-r -q -j -x -i -u -d -v -y -X -D -o -g -e -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 \
        --recurse-paths --quiet --junk-paths --exclude --include --symlinks --no-extra --no-dir-entries --update --delete"])]),
    tool(&["diff3"], Syntax::Letters, &[plain("", &["-A -E -e -m -T -x -X -3 -a -i -L: --show-all --merge --text --easy-only \
        --ed --show-overlap --overlap-only --initial-tab --label --strip-trailing-cr"])]),
    // `-o` reads commands from standard input, and an editor runs programs for some of them.
    tool(&["sdiff"], Syntax::Letters, &[plain("", &["-i -E -Z -b -W -B -a -w: -l -s -t -d -H -I: --ignore-case \
        --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines \
        --strip-trailing-cr --text --width --left-column --suppress-common-lines --expand-tabs --minimal \
        --speed-large-files --ignore-matching-lines --tabsize"])]),
    // Searching.
    tool(&["rg"], Syntax::Letters, &[plain("", &["-a -A: -B: -b -c -C: -e: -E: -F -f: -g: -H -h -i -I -j: -l -L -M: -m: -n -N \
        -o -P -p -q -r: -s -S -t: -T: -U -u -v -V -w -x -0 -. -d:", RG])]),
    tool(&["fd", "fdfind"], Syntax::Letters, &[plain("", &["-H -I -u -s -i -g -F -a -l -L -p -0 -1 -q -E: -t: -e: -S: -d: -o: -c: \
        -j: -C: --hidden --no-hidden --no-ignore --no-ignore-vcs --no-ignore-parent --no-global-ignore-file --unrestricted \
        --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --relative-path --list-details --follow \
        --full-path --print0 --max-results --quiet --exclude --type --extension --size --max-depth --min-depth \
        --exact-depth --owner --color --threads --base-directory --changed-within --changed-before --newer --older --prune \
        --show-errors --one-file-system --strip-cwd-prefix --path-separator --ignore-file --and --search-path --format"])]),
    tool(&["ack"], Syntax::Letters, &[plain("", &["-i -w -v -l -L -c -h -H -n -o -q -Q -x -f -g -s -1 -A: -B: -C: -m: -k -r -R \
        --ignore-case --smart-case --word-regexp --invert-match --files-with-matches --files-without-matches --count \
        --no-filename --with-filename --literal --nocolor --nogroup --noheading --nobreak --column --type --ignore-dir \
        --after-context --before-context --context --max-count --noenv --nopager --sort-files"])]),
    tool(&["ag"], Syntax::Letters, &[plain("", &["-i -s -S -l -L -c -n -w -v -Q -G: -A: -B: -C: -m: -r -R -u -U -a -t -0 -o -h -H -f \
        -g: -p: --ignore-case --case-sensitive --smart-case --files-with-matches --files-without-matches --count \
        --word-regexp --invert-match --literal --nocolor --nogroup --noheading --nobreak --column --hidden --ignore \
        --ignore-dir --vimgrep --path-to-ignore --depth --follow --numbers --nonumbers --silent --stats --nopager"])]),
    tool(&["ugrep"], Syntax::Letters, &[plain("", &["-r -R -n -i -l -L -c -o -w -x -v -e: -E -F -G -P -A: -B: -C: -h -H -q -s -I \
        -t: -g: -k -b -m: --ignore-case --recursive --line-number --files-with-matches --files-without-match --count \
        --only-matching --word-regexp --line-regexp --invert-match --fixed-strings --perl-regexp --after-context \
        --before-context --context --no-filename --with-filename --quiet --no-messages --include --exclude --include-dir \
        --exclude-dir --hidden --ignore-files --color --colour --no-color --max-count --column-number --json"])]),
    // `ug` reads settings in its working folder.
    tool(&["ug"], Syntax::Letters, &[]),
    // Display.
    tool(&["less"], Syntax::Letters, &[plain("", &["-R -F -X -N -S -n -E -e -i -I -M -m -q -Q -r -s -V"]).without(begins_with_plus)]),
    tool(&["bat", "batcat"], Syntax::Letters, &[plain("", &["-p -P -n -A -r: -l: -H: --plain --number --show-all --language \
        --line-range --highlight-line --style --color --theme --wrap --tabs --decorations --terminal-width --file-name \
        --paging=never|auto --no-paging --list-themes --list-languages --no-config --squeeze-blank"])]),
    // A format may be code: `-f eval`.
    tool(&["json_pp"], Syntax::Words, &[plain("", &["-f=json -t=json|null|dumper -json_opt=pretty|canonical|pretty,canonical -v -V"])]),
    // `-x` loads a lexer, or a formatter, from a file.
    tool(&["pygmentize"], Syntax::Letters, &[plain("", &["-l: -f: -o: -S: -a: -N: -C -g -s -v -L -H -V -h"])]),
    // `delta` obeys git's settings, including settings of a repository.
    tool(&["delta"], Syntax::Letters, &[]),
    // Clients of servers.
    tool(&["ssh"], Syntax::Letters, &[plain("", &["-p: -i: -l: -T -t -N -n -q -v -4 -6 -C -a -x -k"])]),
    tool(&["curl"], Syntax::Letters, &[plain("", &["-s -S -L -f -k -i -I -v -g -G -O -J -R -N -a -Z -q -0 -1 -2 -3 -4 -6 -o: -X: -H: \
        -d: -F: -u: -A: -e: -b: -c: -m: -w: -r: -C: -x: -T: -y: -Y: -z:", CURL])]),
    tool(&["wget"], Syntax::Letters, &[plain("", &["-q -v -c -N -r -l: -k -p -S -O: -o: -a: -P: -T: -t: -U: -i: -w: -A: -R: -D: -I: \
        -X: -Q: -L -H -x -E -K -m -4 -6 --quiet --verbose --no-verbose --continue --timestamping --recursive --level \
        --convert-links --page-requisites --server-response --spider --output-document --output-file --append-output \
        --directory-prefix --timeout --dns-timeout --connect-timeout --read-timeout --tries --user-agent --header \
        --input-file --wait --random-wait --waitretry --accept --reject --domains --mirror --no-parent --no-clobber \
        --no-check-certificate --ca-certificate --method --body-data --body-file --post-data --post-file --referer \
        --content-disposition --trust-server-names --max-redirect --show-progress --no-hsts --no-cookies --load-cookies \
        --save-cookies --keep-session-cookies --inet4-only --inet6-only --no-proxy --limit-rate --user --password \
        --retry-connrefused --no-config --no-netrc --compression --https-only"])]),
    tool(&["aria2c"], Syntax::Letters, &[plain("", &["-x: -s: -o: -d: -c -q -k: -j: --dir --out --split --continue --quiet \
        --max-connection-per-server --min-split-size --max-concurrent-downloads --max-tries --timeout --connect-timeout \
        --header --user-agent --referer --check-certificate --checksum --allow-overwrite --auto-file-renaming --no-conf \
        --max-download-limit --summary-interval --console-log-level --file-allocation --follow-torrent"])]),
    tool(
        &["gh"],
        Syntax::Letters,
        &[
            plain("api", &["-X: -f: -F: -H: -q: -i -t: -p: -R: --method --field --raw-field --header --jq --paginate --slurp \
                            --include --silent --template --cache --preview --hostname --input --verbose"]),
            plain("auth status", &["-h: --hostname --active -a"]),
            plain("issue|label|org|pr|release|repo|run|workflow|search|gist|project|secret|variable|status", GH)
                .without(is_no_plain_command_of_gh),
            plain("version", NOTHING),
        ],
    ),
    tool(
        &["chrome", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
        Syntax::Letters,
        &[plain(
            "",
            &["--headless --disable-gpu --dump-dom --screenshot --print-to-pdf --no-pdf-header-footer --window-size \
               --hide-scrollbars --no-first-run --virtual-time-budget --timeout --incognito --user-agent --mute-audio"],
        )],
    ),
    tool(&["tcpdump"], Syntax::Letters, &[plain("", &["-A -X -x -q -e -t -D -n -p -l -v -i: -c: -r: -w: -s: --interface \
        --list-interfaces --number --count"])]),
    tool(
        &["ip"],
        Syntax::Words,
        &[
            plain("addr|address|a|link|l|route|r|rule|neigh|neighbour|n show|list|ls|get", NOTHING),
            plain("addr|address|a|link|l|route|r|rule|neigh|neighbour|n", NOTHING).without(is_a_word),
        ],
    )
    .with_front("-br -brief -4 -6 -j -json -p -pretty -d -details -s -stats -statistics -o -oneline -c -color -N -h", &[]),
    // Keys.
    tool(
        &["openssl"],
        Syntax::Words,
        &[
            keys("version", &["-a -v -b -o -f -p -d -r -c -e -m"]),
            keys("rand", &["-hex -base64 -out"]),
            keys("prime", &["-hex -generate -bits -safe -checks"]),
            keys("list", &["-1 -commands -digest-commands -digest-algorithms -cipher-commands -cipher-algorithms"]),
            keys("dgst|md5|sha1|sha224|sha256|sha384|sha512|sha3-256|sha3-512|blake2b512|blake2s256", OPENSSL_DIGESTS),
            keys("base64|enc", OPENSSL_CIPHERS),
            keys("x509", &["-in -inform -out -outform -noout -text -subject -issuer -dates -startdate -enddate -serial -hash \
                -fingerprint -sha1 -sha256 -pubkey -email -checkend -ext -nameopt -certopt -modulus -purpose -alias -ocsp_uri"]),
            keys("req|crl|pkcs7", &["-in -inform -out -outform -noout -text -subject -issuer -verify -pubkey -print_certs -modulus"]),
            keys("asn1parse", &["-in -inform -i -offset -length -strparse -dump"]),
            keys("verify", &["-CAfile -CApath -untrusted -purpose -verbose -show_chain -partial_chain"]),
            keys("pkey|rsa|ec", &["-in -inform -out -outform -noout -text -pubin -pubout -check -modulus"]),
        ],
    ),
    tool(&["gpg", "gpgsm"], Syntax::Letters, &[plain("", &["-k -K -d -e -s -b -c -a -o: -r: -u: -q -v --verify --list-keys \
        --list-public-keys --list-secret-keys --list-signatures --list-sigs --check-signatures --list-packets --fingerprint \
        --decrypt --encrypt --sign --detach-sign --clear-sign --clearsign --symmetric --armor --output --recipient \
        --local-user --batch --no-tty --yes --no --quiet --verbose --import --export --with-colons --with-fingerprint \
        --keyid-format --status-fd --trust-model --always-trust --digest-algo --print-md --no-options --dearmor --enarmor"])]),
    // These commands load a library to access a token.
    tool(&["ssh-add"], Syntax::Letters, &[plain("", &["-l -L -q -v -E=md5|sha256"])]),
    tool(&["ssh-keygen"], Syntax::Letters, &[plain("", &["-l -B -y -q -v -H -f: -C: -N: -b: -F: -R: -t=rsa|ed25519|ecdsa \
        -E=md5|sha256 -m=RFC4716|PKCS8|PEM"])]),
    // Compilers and their tools.
    tool(
        &["c++", "c89", "c99", "cc", "clang", "clang++", "cpp", "flang", "g++", "gcc", "gccgo", "gdc", "gfortran"],
        Syntax::Words,
        &[plain(
            "",
            &["-c -S -E -o -O -O0 -O1 -O2 -O3 -Os -Og -Oz -Ofast -g -g0 -g1 -g2 -g3 -ggdb -gdwarf-4 -gdwarf-5 -w -W -Wall \
               -Wextra -Werror -Wpedantic -pedantic -pedantic-errors -Wno-: -Wshadow -Wconversion -Wformat -Wformat=2 \
               -Wunused -Wundef -Wvla -ansi -std -fPIC -fpic -fPIE -fpie -pie -no-pie -shared -static -static-libgcc \
               -static-libstdc++ -pthread -pipe -v -x -M -MM -MD -MMD -MP -MF -MT -MQ -m32 -m64 -march -mtune -mcpu \
               -I: -D: -U: -L: -l: -isystem -iquote -include -s -dumpversion -dumpmachine -dumpfullversion \
               -print-search-dirs -print-libgcc-file-name -fsyntax-only -fno-exceptions -fno-rtti -fopenmp \
               -fno-omit-frame-pointer -fomit-frame-pointer -fstack-protector-strong -fvisibility -ffreestanding \
               -fno-builtin -fsanitize -fno-strict-aliasing -fwrapv -fno-common -ffunction-sections -fdata-sections \
               -ffast-math -ffree-form -fdiagnostics-color -fno-diagnostics-color -nostdinc -nostdlib -P -C --help"],
        )
        .without(names_a_list)],
    ),
    tool(&["clang-cl"], Syntax::Words, &[plain("", &["-c -o -O2 -g -w -Wall -Wextra -Werror -v -I: -D: -U: -fsyntax-only --version"])
        .without(begins_with_slash_or_list)]),
    // `rustup` starts these programs, and `cargo`, from the folder that `rust-toolchain.toml` of the working folder names;
    // `.cargo/config.toml` names compilers.
    tool(
        &[
            "cargo-clippy", "cargo-fmt", "cargo-miri", "clippy-driver", "rls", "rust-analyzer", "rust-gdb", "rust-gdbgui",
            "rust-lldb", "rustdoc", "rustfmt",
        ],
        Syntax::Letters,
        &[plain("", NOTHING)],
    )
    .replaced_by_its_folder(),
    tool(
        &["rustc"],
        Syntax::Letters,
        &[plain(
            "",
            &["-v -V -O -g -o: -A: -W: -D: -F: --verbose --edition --crate-type --crate-name --emit --out-dir --cfg \
               --check-cfg --print --explain --cap-lints --test --error-format --color --json --deny --warn --allow --forbid"],
        )
        .without(begins_with_plus_or_list)],
    )
    .replaced_by_its_folder(),
    tool(
        &["cargo"],
        Syntax::Letters,
        &[
            plain("metadata", &[CARGO, "--format-version --no-deps --filter-platform"]),
            plain(
                "tree",
                &[CARGO, "-p: -e: -i: -d -f: --package --edges --invert --depth --prefix --no-dedupe --duplicates --charset \
                          --format --target=all --workspace --exclude --prune"],
            ),
            plain("locate-project", &[CARGO, "--workspace --message-format"]),
            plain("version", &["-v --verbose"]),
        ],
    )
    .replaced_by_its_folder(),
    tool(
        &["go"],
        Syntax::Words,
        &[
            plain("version", &["-m -v"]),
            plain("env", &["-json -changed"]),
            plain("list", &["-m -f -json -deps -test -e -find -versions -tags -mod=mod|readonly|vendor -retracted"]),
        ],
    )
    .obeying_its_folder(),
    tool(&["nm"], Syntax::Letters, &[plain("", &["-a -A -o -C -D -g -u -n -v -p -r -S -s -l -P -B -t=d|o|x --debug-syms \
        --print-file-name --demangle --dynamic --extern-only --undefined-only --defined-only --numeric-sort --no-sort \
        --reverse-sort --print-size --size-sort --print-armap --line-numbers --portability --no-demangle"]).without(names_a_list)]),
    tool(&["ar"], Syntax::FirstLetters, &[plain("", &["-d -m -p -q -r -t -x -a -b -c -D -i -o -O -P -s -S -T -u -U -v -V"]).without(names_a_list)]),
    tool(&["ranlib"], Syntax::Letters, &[plain("", &["-D -U -t"]).without(names_a_list)]),
    tool(&["strip"], Syntax::Letters, &[plain("", &["-s -S -g -d -x -X -p -v -D -o: -K: -N: -R: --strip-all --strip-debug \
        --strip-unneeded --keep-symbol --remove-section --preserve-dates --discard-all --only-keep-debug"]).without(names_a_list)]),
    tool(&["objcopy"], Syntax::Letters, &[plain("", &["-I: -O: -j: -R: -S -g -x -X -p -v -D -N: -K: -L: -G: -W: --strip-all \
        --strip-debug --strip-unneeded --only-section --remove-section --only-keep-debug --add-gnu-debuglink \
        --preserve-dates --output-target --input-target"]).without(names_a_list)]),
    tool(&["gold", "ld", "ld.bfd", "ld.gold", "ld.lld"], Syntax::Words, &[plain("", &["-v -V --help"]).without(is_a_word)]),
    // For other languages `protoc` starts a program by name.
    tool(
        &["protoc"],
        Syntax::Letters,
        &[plain(
            "",
            &["-I: -o: --proto_path --descriptor_set_out --include_imports --include_source_info --cpp_out --java_out \
               --python_out --pyi_out --csharp_out --objc_out --php_out --ruby_out --kotlin_out"],
        )
        .without(names_a_list)],
    ),
    // Version control: commands may be abbreviated, and a local repository runs its hooks.
    tool(
        &["hg"],
        Syntax::Letters,
        &[
            plain("status|st", &[HG, "-m -a -r -d -c -u -i -n -C -A -0 --modified --added --removed --deleted --clean --unknown \
                --ignored --no-status --copies --all --print0 --rev --change"]),
            plain("log|history", &[HG, "-f -d: -k: -r: -u: -b: -P: -p -g -l: -M -G -T: --follow --date --keyword --rev --user \
                --branch --prune --patch --git --limit --no-merges --stat --graph --template --copies --removed"]),
            plain("diff", &[HG, "-r: -c: -a -g -p -w -b -B -U: --rev --change --from --to --text --git --show-function \
                --reverse --ignore-all-space --ignore-space-change --ignore-blank-lines --unified --stat --nodates"]),
            plain("add|addremove|forget|remove|rm", &[HG, "-n -A -f -s: --dry-run --after --force --similarity"]),
            plain("commit|ci", &[HG, "-A -m: -l: -d: -u: -s --addremove --message --logfile --date --user --close-branch --amend \
                --secret"]),
            plain("annotate|blame|cat", &[HG, "-r: -u -f -d -n -c -l -a --rev --user --file --date --number --changeset"]),
            plain("branch|branches|bookmarks|bookmark|tags|heads|parents|root|summary|files|manifest|identify|id|tip|paths|version",
                &[HG, "-r: -i -n -b -t -B -f -c -d -m: -0 -v --rev --id --num --branch --tags --closed --active --topo --template"]),
            plain("update|up|checkout|co|revert", &[HG, "-C -c -r: -a -n --clean --check --rev --all --no-backup --dry-run"]),
        ],
    )
    .with_front("-q -v --quiet --verbose --noninteractive --pager=never|no|off", &[]),
    // The settings of a repository name programs that show changes and check signatures, and every command that reads the history
    // checks signatures.
    tool(&["jj"], Syntax::Letters, &[plain("version", NOTHING)]),
    // Pushing to a repository in a folder runs its hooks, and only addresses in the arguments are known.
    tool(
        &["svn"],
        Syntax::Letters,
        &[
            plain(
                "status|stat|st|info|cat|diff|di|propget|pget|proplist|plist|add|revert|delete|del|remove|rm|mkdir|move|mv|copy|cp|\
                 resolve|cleanup",
                SVN,
            )
            .without(is_no_network_address),
            plain("log|list|ls|blame|annotate|praise", SVN_REMOTE)
                .without(is_no_network_address)
                .with(has_network_address),
        ],
    ),
    tool(&["borg"], Syntax::Letters, &[plain("list|info", &["--short --json --json-lines --last --first --format --sort-by"])]),
];

const FIND: PlainTool = tool(
    &["find", "gfind"],
    Syntax::Words,
    &[plain(
        "",
        &[
            "-H -L -P -O0 -O1 -O2 -O3 -# -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname \
           -type -xtype -size -empty -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerat -newerct \
           -newermm -used -daystart -maxdepth -mindepth -depth -d -print -print0 -printf -ls -prune -quit -not -and -or -a -o \
           -true -false -follow -perm -user -group -uid -gid -nouser -nogroup -links -inum -samefile -readable -writable \
           -executable -mount -xdev -noleaf -warn -nowarn -fstype -ignore_readdir_race",
        ],
    )],
);

const RG: &str = "--text --after-context --before-context --context --block-buffered --line-buffered --byte-offset \
    --case-sensitive --color --colors --column --no-column --count --count-matches --crlf --debug --no-context-separator \
    --context-separator --regexp --encoding --engine --field-context-separator --field-match-separator --file --files \
    --files-with-matches --files-without-match --fixed-strings --follow --glob --glob-case-insensitive --iglob --heading \
    --no-heading --help --hidden --no-hidden --ignore-case --ignore-file --ignore-file-case-insensitive --include-zero \
    --invert-match --json --line-number --no-line-number --line-regexp --max-columns --max-columns-preview --max-count \
    --max-depth --max-filesize --mmap --no-mmap --multiline --multiline-dotall --no-config --no-ignore --no-ignore-dot \
    --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs \
    --no-messages --no-pcre2-unicode --no-require-git --no-unicode --null --null-data --one-file-system --only-matching \
    --passthru --path-separator --pcre2 --pretty --quiet --replace --smart-case --sort --sortr --stats --stop-on-nonmatch \
    --threads --trace --trim --no-trim --type --type-add --type-clear --type-list --type-not --unrestricted --vimgrep \
    --with-filename --no-filename --word-regexp --binary --no-binary --auto-hybrid-regex --dfa-size-limit --regex-size-limit";

const CURL: &str = "--silent --show-error --location --location-trusted --fail --fail-with-body --fail-early --insecure --include \
    --head --verbose --globoff --get --remote-name --remote-name-all --remote-header-name --remote-time --no-buffer --append \
    --parallel --parallel-max --http1.0 --http1.1 --http2 --http3 --tlsv1.2 --tlsv1.3 --ipv4 --ipv6 --output --output-dir \
    --create-dirs --request --header --data --data-raw --data-binary --data-ascii --data-urlencode --json --form \
    --form-string --user --user-agent --referer --cookie --cookie-jar --max-time --connect-timeout --write-out --range \
    --continue-at --proxy --noproxy --upload-file --url --url-query --retry --retry-delay --retry-max-time --retry-all-errors \
    --retry-connrefused --compressed --progress-bar --no-progress-meter --limit-rate --max-redirs --max-filesize --proto \
    --proto-redir --proto-default --resolve --cacert --capath --oauth2-bearer --basic --digest --ciphers --time-cond \
    --speed-limit --speed-time --trace-time --styled-output --no-styled-output --path-as-is --post301 --post302 --post303 \
    --keepalive-time --no-keepalive --disable --disallow-username-in-url --etag-save --etag-compare --no-clobber \
    --remove-on-error --happy-eyeballs-timeout-ms --tcp-nodelay --ssl-reqd --stderr --raw --netrc --netrc-optional";

const CARGO: &str = "-v -q -F: --verbose --quiet --color --locked --offline --frozen --features --all-features \
    --no-default-features --manifest-path";

const GH: &[&str] = &[
    "-R: -L: -s: -A: -a: -l: -S: -q: -b: -B: -H: -F: -t: -T: -m: -d -r -p -c -i: -u: -y -n: -o: -D: \
    --repo --limit --state --author --assignee --label --search --json --jq --template --body --body-file --base --head \
    --title --draft --milestone --project --reviewer --comments --fill --fill-first --fill-verbose --no-maintainer-edit --dry-run \
    --name-only --patch --color --required --watch --interval --fail-fast --workflow --branch --event --user --status \
    --commit --created --log --log-failed --exit-status --attempt --job --verbose --approve --comment --request-changes \
    --squash --merge --rebase --auto --admin --delete-branch --match-head-commit --subject --reason --add-label \
    --remove-label --add-assignee --remove-assignee --add-reviewer --remove-reviewer --undo --owner --visibility --language \
    --topic --sort --order --updated --closed --merged --draft --archived --fork --source --public --private --description \
    --pattern --dir --clobber --notes --notes-file --generate-notes --target --latest --prerelease --verify-tag --tag \
    --raw --files --filename --ref --yaml --field --raw-field --org --env --app --include-prs --checks --commits --review \
    --reviewed-by --review-requested --involves --mentions --commenter --locked --no-assignee --no-label --match --repo-id",
];

/// Matches commands of `gh` that start an editor, a browser or git, pass options to git, or print secrets.
fn is_no_plain_command_of_gh(operand: &str) -> bool {
    matches!(operand, "checkout" | "clone" | "codespace" | "create-branch" | "develop" | "fork" | "sync" | "--")
        || names_a_helper(operand)
}

const HG: &str = "-I: -X: -q -v -y --include --exclude --quiet --verbose --noninteractive --color --pager=never|no|off";

/// Options that do not contact the repository of the working copy.
const SVN: &[&str] = &[
    "-l: -v -q -m: -F: -N -R -g -x: --limit --verbose --quiet --message --file --recursive --depth --xml --incremental --stop-on-copy --with-all-revprops --summarize --git --notice-ancestry \
    --no-ignore --show-item --no-newline --non-interactive --trust-server-cert --ignore-externals --parents --force --force-log \
    --no-auth-cache --username --password --internal-diff --strict --accept=postpone|working|base|mine-full|theirs-full \
    --remove-added --changelist",
];

const SVN_REMOTE: &[&str] = &[
    "-r: -c: -l: -v -q -g -x: -R --revision --change --limit --verbose --quiet --recursive --depth --xml --incremental --stop-on-copy \
    --with-all-revprops --non-interactive --trust-server-cert --no-auth-cache --username --password --force",
];

/// Defines a command of openssl. An input with a scheme comes from an engine, or is a password.
const fn keys(command: &'static str, options: &'static [&'static str]) -> PlainUse {
    plain(command, options).without(has_a_scheme)
}

const OPENSSL_DIGESTS: &[&str] =
    &["-md5 -sha1 -sha224 -sha256 -sha384 -sha512 -sha3-256 -sha3-512 -blake2b512 -blake2s256 -hex \
    -binary -r -c -d -out -hmac -sign -verify -prverify -signature"];

const OPENSSL_CIPHERS: &[&str] =
    &["-e -d -a -A -base64 -in -out -salt -nosalt -pbkdf2 -iter -md -k -K -iv -p -P -nopad \
    -aes-128-cbc -aes-192-cbc -aes-256-cbc -aes-256-ctr -aes128 -aes256"];

fn is_a_word(operand: &str) -> bool {
    !operand.is_empty() && !operand.starts_with('-')
}

/// Agents with a prompt. The following are not plain: other sessions (`-c`, `-r`, `--fork`, an id), external commands (`--mode
/// rpc`), grants, trust, extensions to install, and models from a file or from any server. An extension in a file adds no
/// authority: a model that it selects does not count as chosen by the user (guard `attribution.started`). Files in the arguments
/// are decided like those of any program.
const PI: PlainTool = tool(&["pi"], Syntax::Letters, &[plain("", &["-p -h -v -V -e -n: -t: --print --help --version --mode=text|json \
    --model --models --provider --thinking --list-models --tools --exclude-tools --no-tools --no-builtin-tools --no-session \
    --session --session-dir --no-extensions --extension --no-mcp --skill --no-skills --prompt-template --no-prompt-templates \
    --no-themes --no-context-files --system-prompt --append-system-prompt --name --offline --verbose --no-approve --deny \
    --policy=strict --fail-on-extension-error --session-control"]).without(is_no_agent).without_value(is_no_value_for_agent).with(attaches_no_extension)]);
