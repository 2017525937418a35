//! Settings of a repository that a plain use of git may read: those that name no program, and change nothing
//! about which one runs. Git has many hundreds of settings and gains some with each version, so no list of dangerous ones is
//! whole.

/// By section: its variables in lower case, with a space between, or `*` for all of them. Whether there is a name between
/// (`remote.NAME.url`) makes no difference.
const HARMLESS: &[(&str, &str)] = &[
    ("add", "*"),
    ("advice", "*"),
    ("am", "*"),
    ("apply", "*"),
    ("attr", "*"),
    ("author", "*"),
    ("blame", "*"),
    // Not `mergeoptions`: a strategy is a program.
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
    ("commit", "cleanup gpgsign status template verbose"),
    ("committer", "*"),
    ("commitgraph", "*"),
    (
        "core",
        "abbrev alternaterefsprefixes attributesfile autocrlf bare bigfilethreshold checkroundtripencoding \
         checkstat commentchar commentstring commitgraph compression createobject deltabasecachelimit \
         disambiguate eol excludesfile filemode filesreflocktimeout fsmonitorhookversion fscache fsync \
         fsyncmethod fsyncobjectfiles hidedotfiles ignorecase ignorestat logallrefupdates longpaths \
         loosecompression lockfilepid maxtreedepth multipackindex notesref packedgitlimit packedgitwindowsize \
         packedrefstimeout precomposeunicode preloadindex protecthfs protectntfs quotepath \
         repositoryformatversion safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex \
         streamingthreshold symlinks trustctime untrackedcache usereplacerefs warnambiguousrefs whitespace \
         worktree",
    ),
    // The name of a user, or how an address is compared. A helper is reset, and the user's own added.
    ("credential", "helper username usehttppath"),
    (
        "diff",
        "algorithm autorefreshindex binary cachetextconv colormoved colormovedws context dirstat dstprefix \
         funcname guitool ignoresubmodules indentheuristic interhunkcontext mnemonicprefix noprefix orderfile \
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
    ("gpg", "format mintrustlevel allowedsignersfile revocationfile"),
    ("grep", "*"),
    (
        "http",
        "cookiefile delegation emptyauth extraheader followredirects lowspeedlimit lowspeedtime maxrequests \
         minsessions noepsv postbuffer proxy proxyauthmethod proxysslcainfo savecookies schannelcheckrevoke \
         sslbackend sslcainfo sslcapath sslcert sslcipherlist sslkey ssltry sslverify sslversion useragent \
         version",
    ),
    ("i18n", "*"),
    // Each file is listed with what it says.
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
    // Not `instructionformat`: it makes lines of the list of what is to be done.
    (
        "rebase",
        "abbreviatecommands autosquash autostash backend forkpoint maxlabellength missingcommitscheck \
         rebasemerges reschedulefailedexec stat updaterefs",
    ),
    ("receive", "*"),
    (
        "remote",
        "fetch followremotehead gh-resolved mirror partialclonefilter promisor proxy proxyauthmethod prune \
         prunetags push pushdefault pushurl skipdefaultupdate skipfetchall tagopt url",
    ),
    ("remotes", "*"),
    ("repack", "*"),
    ("rerere", "*"),
    ("revert", "*"),
    // Git reads them of the user's own files only.
    ("safe", "*"),
    ("uploadpack", "*"),
    ("showbranch", "*"),
    ("sparse", "*"),
    ("ssh", "variant"),
    ("stash", "*"),
    ("status", "*"),
    (
        "submodule",
        // What they fetch is checked like this repository.
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

/// Sections in which other tools keep settings, too. All that git makes of them is known.
const SHARED: &[&str] = &["branch", "credential", "filter", "http", "lfs", "remote"];

/// Returns whether a section is git's own, so that git may make something of a variable in it that nobody listed.
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
