//! Lists the guards: each security check of PiJS that a test disables, with its effect.

super::guards! {
    /// Waits for extensions that are being restarted before the next model reply begins.
    AgentAwaitRestart = "agent.await-restart",
    /// Runs a command for a message of an extension only if it is the extension's own.
    AgentForeignCommands = "agent.foreign-commands",
    /// Runs no command for a prompt of the extension that started `pi`, and does not present it as typed by the user.
    AgentForeignPrompts = "agent.foreign-prompts",
    /// Limits the size, number of files, depth and name length of an archive.
    ArchiveCaps = "archive.caps",
    /// Refuses an archive that contains a path twice.
    ArchiveDuplicates = "archive.duplicates",
    /// Refuses an archive without an end, or with bytes after it.
    ArchiveEnd = "archive.end",
    /// Refuses GNU extension headers that are repeated, oversized or belong to no entry.
    ArchiveExtensions = "archive.extensions",
    /// Refuses devices and entries of unknown kinds in an archive.
    ArchiveKinds = "archive.kinds",
    /// Refuses links in an archive.
    ArchiveLinks = "archive.links",
    /// Installs files with modes that only their owner may write.
    ArchiveModes = "archive.modes",
    /// Refuses a gzip stream with bytes after its member.
    ArchiveOneMember = "archive.one-member",
    /// Refuses paths with `.` components and names that no tool writes.
    ArchivePath = "archive.path",
    /// Refuses malformed PAX records and those that change an entry.
    ArchivePax = "archive.pax",
    /// Refuses an entry whose headers state two sizes.
    ArchiveSizes = "archive.sizes",
    /// Refuses an archive without exactly one folder at its top.
    ArchiveTop = "archive.top",
    /// Refuses two names that some file system treats as one.
    ArchiveTwins = "archive.twins",
    /// Rejects bytecode of another engine build.
    ArtifactEngine = "artifact.engine",
    /// Rejects an artifact whose input list differs from what a new build reads.
    ArtifactInputs = "artifact.inputs",
    /// Rejects bytecode that is not authenticated with the installation's key.
    ArtifactMac = "artifact.mac",
    /// Compiles a foreign artifact again instead of trusting its bytecode.
    ArtifactSources = "artifact.sources",
    /// Separates sessions of agents that extensions start from the user's sessions.
    AttributionAgentSessions = "attribution.agent-sessions",
    /// Attributes messages to the extensions that wrote them.
    AttributionAuthor = "attribution.author",
    /// Binds a built-in tool to the file that the gate decided about, not to its path.
    AttributionBoundPaths = "attribution.bound-paths",
    /// Attributes a tool call to the extension that changed it.
    AttributionChangedCall = "attribution.changed-call",
    /// Judges a call of an MCP tool by the extension that led to it.
    AttributionMcp = "attribution.mcp",
    /// Attributes a tool call to the extension whose message led to it.
    AttributionMessage = "attribution.message",
    /// Attributes the next model request to extensions whose messages are unanswered.
    AttributionPendingMessage = "attribution.pending-message",
    /// Judges built-in tool calls by the path after links are resolved.
    AttributionRealPath = "attribution.real-path",
    /// Attributes a tool call to the extension that produced the reply.
    AttributionReply = "attribution.reply",
    /// Tells `pi` that an extension started it, so that no model of an extension counts as the user's choice.
    AttributionStarted = "attribution.started",
    /// Closes protected paths to the calls of a session that an extension started.
    AttributionStartedFiles = "attribution.started-files",
    /// Names a dependency by its folder, not by the name that its manifest claims.
    BuildDependencyNames = "build.dependency-names",
    /// Refuses an entry module outside of the package.
    BuildEntry = "build.entry",
    /// Refuses a resolved file that does not belong to the package.
    BuildEscape = "build.escape",
    /// Restricts the build process to the folders it was given.
    BuildFiles = "build.files",
    /// Limits how many `node_modules` folders around a package are searched.
    BuildFoldersAround = "build.folders-around",
    /// Reports source with hidden or bidirectional characters.
    BuildHiddenText = "build.hidden-text",
    /// Checks the inputs that a build process reports against the files it was served.
    BuildInputList = "build.input-list",
    /// Rebuilds when a path that was probed during resolution has changed.
    BuildLookups = "build.lookups",
    /// Refuses a package manifest that links out of the package.
    BuildManifest = "build.manifest",
    /// Includes dependency manifests in the sources that a grant is bound to.
    BuildManifests = "build.manifests",
    /// Searches only folders that are named `node_modules` after links are resolved.
    BuildModules = "build.modules",
    /// Limits how deeply source may nest before it is parsed.
    BuildNesting = "build.nesting",
    /// Refuses files outside of the extension's folder that it may not read at run time.
    BuildOutside = "build.outside",
    /// Refuses to read protected files during a build.
    BuildProtected = "build.protected",
    /// Records files that a build read in the ledger and counts them for `egress`.
    BuildRecorded = "build.recorded",
    /// Rebuilds when a file that was refused to a cached build would now be admitted.
    BuildRefusals = "build.refusals",
    /// Opens the roots of a build without following links that appear later.
    BuildRootHandles = "build.root-handles",
    /// Refuses imports by URL or absolute path.
    BuildSchemes = "build.schemes",
    /// Limits the source bytes of one build.
    BuildSize = "build.size",
    /// Opens source files beneath their root without following links.
    BuildTree = "build.tree",
    /// Limits event bus emissions that listeners have not handled yet.
    BusBacklog = "bus.backlog",
    /// Refuses scenario files outside of the scenario's folder.
    DriveInside = "drive.inside",
    /// Holds one exclusive lock while state is changed.
    DurableLock = "durable.lock",
    /// Opens state files without following links.
    DurableNoFollow = "durable.no-follow",
    /// Refuses a state folder that other users own or may write.
    DurablePrivateDir = "durable.private-dir",
    /// Refuses state files that are not regular files.
    DurableRegularFile = "durable.regular-file",
    /// Allows one writer for an append-only file.
    DurableSingleWriter = "durable.single-writer",
    /// Limits the work of computing the diff of an edit.
    EditDiff = "edit.diff",
    /// Refuses an extension's model request to an address that it may not reach.
    EgressModelAddress = "egress.model-address",
    /// Refuses dynamic imports of internal and unknown modules.
    EngineDynamicImports = "engine.dynamic-imports",
    /// Ends a turn that has used up its execution budget.
    EngineFuel = "engine.fuel",
    /// Ends a turn that has used up its microtask budget.
    EngineJobs = "engine.jobs",
    /// Counts memory outside of the engine's heap toward the realm's limit.
    EngineMemory = "engine.memory",
    /// Limits unhandled rejections reported in one turn.
    EngineRejections = "engine.rejections",
    /// Limits the size of a value that leaves a realm.
    EngineSize = "engine.size",
    /// Limits the engine's stack.
    EngineStack = "engine.stack",
    /// Limits size and number of texts that are compiled at run time.
    EngineTextCode = "engine.text-code",
    /// Replaces an oversized answer, error or message of an extension before it is passed on.
    EventsAnswerSize = "events.answer-size",
    /// Limits the size of events delivered to a realm.
    EventsSize = "events.size",
    /// Limits undelivered updates of a call.
    EventsUpdateBacklog = "events.update-backlog",
    /// Treats the running `pi` as an agent under any name of its file.
    ExecAgentByFile = "exec.agent-by-file",
    /// Refuses files for an agent that the extension which starts it cannot read.
    ExecAgentFiles = "exec.agent-files",
    /// Lets a started `pi` read only the files that were checked when an extension named them.
    ExecAgentIdentity = "exec.agent-identity",
    /// Makes a started `pi` use the installation of the one that the extension runs in.
    ExecAgentInstallation = "exec.agent-installation",
    /// Refuses a folder of texts for a started `pi` whose links lead to files that the extension cannot read.
    ExecAgentLinks = "exec.agent-links",
    /// Refuses new sessions of a started agent in folders that the extension may not write to.
    ExecAgentNewFiles = "exec.agent-new-files",
    /// Refuses a session for a started `pi` that the extension cannot read, and a folder in which the user's sessions are.
    ExecAgentSessions = "exec.agent-sessions",
    /// Refuses a protected file that a started `pi` would write: a session, a tape, a log.
    ExecAgentWrites = "exec.agent-writes",
    /// Counts files with secrets that program arguments name as read.
    ExecArgumentReads = "exec.argument-reads",
    /// Refuses program arguments that name protected files.
    ExecArguments = "exec.arguments",
    /// Stops git from treating a plain folder as a bare repository.
    ExecBareRepository = "exec.bare-repository",
    /// Prevents known tools from writing what programs keep in the cache folder of the home.
    ExecCachedCode = "exec.cached-code",
    /// Prevents known tools from writing code that settings, links and the search path name outside of the project.
    ExecCodeElsewhere = "exec.code-elsewhere",
    /// Starts a program only in the working folder that the gate decided about.
    ExecCwd = "exec.cwd",
    /// Refuses working folders that contain PiJS's own files.
    ExecCwdOwn = "exec.cwd-own",
    /// Passes only an allow list of environment variables to programs.
    ExecEnv = "exec.env",
    /// Matches a remembered command by its program and every argument.
    ExecExact = "exec.exact",
    /// Stores no answer about a program whose working folder is outside the project.
    ExecFolder = "exec.folder",
    /// Refuses folders that contain credentials, for programs that may read those.
    ExecFolderAbove = "exec.folder-above",
    /// Counts each file of a folder that a program reads.
    ExecFolderReads = "exec.folder-reads",
    /// Lets a plain use of git open only the files that it needs, whatever is exchanged while it runs.
    ExecGitBounds = "exec.git-bounds",
    /// Overrides repository settings that are not known to be harmless.
    ExecGitHarmless = "exec.git-harmless",
    /// Overrides repository settings for a command line that mentions git.
    ExecGitInLine = "exec.git-in-line",
    /// Refuses repository settings that include other files while git changes files.
    ExecGitIncludes = "exec.git-includes",
    /// Refuses a repository whose index names files outside of it.
    ExecGitIndexNames = "exec.git-index-names",
    /// Closes the keys in the home to a plain use of git that neither connects nor signs or checks a signature.
    ExecGitKeys = "exec.git-keys",
    /// Refuses a repository whose own files are links to keys or credentials.
    ExecGitLinks = "exec.git-links",
    /// Refuses nested repositories while git changes files.
    ExecGitNested = "exec.git-nested",
    /// Prevents git from starting programs when PiJS inspects a repository before a call.
    ExecGitOwnRuns = "exec.git-own-runs",
    /// Overrides repository settings that name programs.
    ExecGitSettings = "exec.git-settings",
    /// Stops git from running programs that a submodule's settings name.
    ExecGitSubmodules = "exec.git-submodules",
    /// Refuses repository settings whose keys are not UTF-8, so that they cannot be overridden.
    ExecGitText = "exec.git-text",
    /// Refuses a repository whose index cannot be listed as a whole, so that its submodules are not known.
    ExecGitWholeIndex = "exec.git-whole-index",
    /// Refuses a repository whose work tree is elsewhere.
    ExecGitWorkTree = "exec.git-work-tree",
    /// Keeps the working folder of a running program, and the folders above it, from being moved.
    ExecHeldFolder = "exec.held-folder",
    /// Expands a leading `~` in a granted command to the home.
    ExecHome = "exec.home",
    /// Refuses git commands that take files from an index that the extension wrote.
    ExecIndex = "exec.index",
    /// Matches a remembered command by its standard input as well.
    ExecInput = "exec.input",
    /// Refuses protected files among further arguments of a named command of an interpreter.
    ExecInterpreterFiles = "exec.interpreter-files",
    /// Kills a program that ignores the request to end.
    ExecKill = "exec.kill",
    /// Keeps modules of the working folder out of a tool of python's library.
    ExecLibraryTool = "exec.library-tool",
    /// Signals only processes that the extension's own programs started.
    ExecLineage = "exec.lineage",
    /// Refuses a linked working folder for programs that execute files found there.
    ExecLinkedFolder = "exec.linked-folder",
    /// Refuses a plain `git push` to a local folder.
    ExecLocalPush = "exec.local-push",
    /// Classifies a program by the name of its file, if the tables know the file but not the command.
    ExecNameBehind = "exec.name-behind",
    /// Limits a granted command that names a relative file to the folder of the session.
    ExecNamedFile = "exec.named-file",
    /// Refuses options after a granted subcommand that name other commands.
    ExecNamedOptions = "exec.named-options",
    /// Starts programs without the ability to gain privileges.
    ExecNoNewPrivileges = "exec.no-new-privileges",
    /// Limits programs that execute files of their folder to the project.
    ExecObeyedFolder = "exec.obeyed-folder",
    /// Recognizes `pi` by the identity of the running program, not by its name.
    ExecOwnIdentity = "exec.own-identity",
    /// Refuses protected files in any part of an argument, such as `-qFFILE` and `x=FILE,ro`.
    ExecPartsOfArguments = "exec.parts-of-arguments",
    /// Prompts for uses of a program that are not known to be plain.
    ExecPlainUse = "exec.plain-use",
    /// Refuses programs from folders that the extension may write.
    ExecProgram = "exec.program",
    /// Resolves files of arguments as the kernel does, and refuses paths through folders of a process.
    ExecResolvedArguments = "exec.resolved-arguments",
    /// Starts a program in a separate session, without inherited files.
    ExecSession = "exec.session",
    /// Refuses a shim whose program a file of the project names.
    ExecShims = "exec.shims",
    /// Restricts the program that `timeout`, `env` and their like start as it is restricted by itself.
    ExecStartedProgram = "exec.started-program",
    /// Closes terminals and input devices to programs of extensions.
    ExecTerminals = "exec.terminals",
    /// Closes keys and credentials that a use of a known tool does not need.
    ExecToolCredentials = "exec.tool-credentials",
    /// Prevents known tools from writing start files and settings in the home.
    ExecToolSettings = "exec.tool-settings",
    /// Accepts only absolute tool folders in a search path.
    ExecToolsPath = "exec.tools-path",
    /// Ends the process tree of a program together with its host.
    ExecTree = "exec.tree",
    /// Refuses environment variables whose names read like commands.
    ExecVariableNames = "exec.variable-names",
    /// Requires a grant to name variables that change what a program runs.
    ExecVariables = "exec.variables",
    /// Closes protected files to programs that an extension starts.
    ExecView = "exec.view",
    /// Confines writes of programs to the project and the temporary folder in strict mode.
    ExecWritable = "exec.writable",
    /// Restricts a command of pi's own shell that an extension wrote like a program of that extension.
    ExecWrittenCommand = "exec.written-command",
    /// Removes folders that extensions may write from the search path.
    ExecWrittenPath = "exec.written-path",
    /// Refuses to export a session through a link.
    ExportLink = "export.link",
    /// Reads only regular files, up to a limit, from foreign folders.
    FilesRegular = "files.regular",
    /// Refuses paths that leave the folder the gate allowed.
    FsBeneath = "fs.beneath",
    /// Counts each file of a folder that is copied or moved as read.
    FsFolderReads = "fs.folder-reads",
    /// Limits open files of one extension.
    FsHandles = "fs.handles",
    /// Limits file watchers to one system instance for each extension.
    FsInstances = "fs.instances",
    /// Refuses a link whose target goes up again after a name.
    FsLinkSteps = "fs.link-steps",
    /// Refuses a link to a folder that contains protected files.
    FsLinkedAbove = "fs.linked-above",
    /// Stays on the file system that the gate decided about.
    FsMounts = "fs.mounts",
    /// Refuses to move a link, or a folder with one, to where it leads to a protected or unreadable file.
    FsMovedLinks = "fs.moved-links",
    /// Refuses pipes, sockets and devices.
    FsSpecial = "fs.special",
    /// Limits watched paths of one extension.
    FsWatched = "fs.watched",
    /// Prompts before the first request after the extension read a file that may contain secrets.
    GateAfterSecret = "gate.after-secret",
    /// Gives each path of a copy or move the capability that its access needs.
    GateBothEnds = "gate.both-ends",
    /// Refuses to move a folder to a place where its content becomes protected.
    GateBrought = "gate.brought",
    /// Derives the required capability from the call, not from its claim.
    GateClaimed = "gate.claimed",
    /// Protects the code of other extensions from changes.
    GateCode = "gate.code",
    /// Prevents a create grant from changing existing files.
    GateCreateOnly = "gate.create-only",
    /// Applies the policy's and the user's refusals before any grant.
    GateDenyList = "gate.deny-list",
    /// Treats an empty scope as covering nothing.
    GateEmptyScope = "gate.empty-scope",
    /// Requires a session entry to have the capability for the part that it changes: context, model, prompt.
    GateEntries = "gate.entries",
    /// Requires the capability `eval` for text that becomes code.
    GateEval = "gate.eval",
    /// Requires a grant for the capability.
    GateGrant = "gate.grant",
    /// Protects settings files in the home directory that programs execute.
    GateHomeSettings = "gate.home-settings",
    /// Limits the own files of a loose extension to itself and files with its name, instead of its whole folder.
    GateLooseFolder = "gate.loose-folder",
    /// Limits a capability to the hostcalls that it names.
    GateMethods = "gate.methods",
    /// Stores no answer about one tool call beyond the session.
    GateNamedTool = "gate.named-tool",
    /// Uses a one-time answer for exactly the call it was given for.
    GateOnce = "gate.once",
    /// Limits an extension's exemption to its own folder.
    GateOwn = "gate.own",
    /// Refuses protected paths whatever is granted.
    GateProtected = "gate.protected",
    /// Limits prompts that wait for the user.
    GateQuestions = "gate.questions",
    /// Protects files that later sessions execute or include in prompts.
    GateRunsLater = "gate.runs-later",
    /// Requires the call's subject to match the grant's scope.
    GateScope = "gate.scope",
    /// Protects session files above every grant.
    GateSessionFiles = "gate.session-files",
    /// Requires `session.inject` to create files in session folders.
    GateSessionFolders = "gate.session-folders",
    /// Prompts before connecting to another program's socket.
    GateSocket = "gate.socket",
    /// Refuses a literal `*` in the host name of a call.
    GateStar = "gate.star",
    /// Offers to remember only answers that a later session can read.
    GateStorableAnswer = "gate.storable-answer",
    /// Switches the session only to files that are known sessions.
    GateSwitch = "gate.switch",
    /// Allows reading a file under a write grant only if it is unchanged.
    GateUnchangedSinceWrite = "gate.unchanged-since-write",
    /// Refuses to prompt the user while a stream waits for a verdict.
    GateVerdict = "gate.verdict",
    /// Refuses parts of a git source that git reads as options.
    GitArguments = "git.arguments",
    /// Fetches repositories into a folder that extensions cannot reach.
    GitFolder = "git.folder",
    /// Refuses symbolic links in a git package that leave it.
    GitLinks = "git.links",
    /// Refuses git over plain HTTP.
    GitTransport = "git.transport",
    /// Limits length and nesting of glob patterns.
    GlobBounds = "glob.bounds",
    /// Binds grants to the digest of a prebuilt artifact.
    GrantsArtifact = "grants.artifact",
    /// Binds grants to the code and manifest that the user agreed to.
    GrantsBound = "grants.bound",
    /// Keeps grants of a project's packages apart from those of the user's.
    GrantsProject = "grants.project",
    /// Refuses to install a package whose scopes cannot be parsed.
    GrantsReadable = "grants.readable",
    /// Searches expensive patterns on a thread that can be abandoned.
    GrepWorker = "grep.worker",
    /// Stops waiting for a handler that continues after the user aborted.
    HookAbort = "hook.abort",
    /// Ends a handler that exceeds its deadline.
    HookDeadline = "hook.deadline",
    /// Limits the text that a verdict injects.
    HookRetrySize = "hook.retry-size",
    /// Waits for the restart of an extension that handles the event.
    HostAwaitDecider = "host.await-decider",
    /// Reports a command of a stopped extension instead of sending it to the model.
    HostMissingCommands = "host.missing-commands",
    /// Refuses an event while the extension that decides about it is stopped.
    HostMissingDecider = "host.missing-decider",
    /// Runs no other tool in place of a tool whose extension is stopped.
    HostMissingTools = "host.missing-tools",
    /// Refuses an event whose deciding extension was replaced meanwhile.
    HostReplacedRealm = "host.replaced-realm",
    /// Refuses private, loopback and link-local addresses at each redirect.
    HttpAddress = "http.address",
    /// Limits content codings and the size of decoded bodies.
    HttpCodings = "http.codings",
    /// Drops credentials when a redirect leaves the origin.
    HttpCredentials = "http.credentials",
    /// Limits the memory of concurrent decoders.
    HttpDecoders = "http.decoders",
    /// Refuses addresses of this machine's own networks.
    HttpNeighbours = "http.neighbours",
    /// Refuses public addresses that belong to this machine.
    HttpOwn = "http.own",
    /// Judges each redirect like a request.
    HttpRedirect = "http.redirect",
    /// Limits the size of response bodies.
    HttpSize = "http.size",
    /// Keeps the installed version if an unattended update requests more capabilities.
    InstallKeepWorking = "install.keep-working",
    /// Checks an update completely before it replaces the installed version.
    InstallReview = "install.review",
    /// Requires the strongest stated digest to match.
    IntegrityMatch = "integrity.match",
    /// Refuses a package without a digest.
    IntegrityPresent = "integrity.present",
    /// Refuses digests that can be forged.
    IntegrityStrength = "integrity.strength",
    /// Opens ledger files beneath their folder.
    LedgerBeneath = "ledger.beneath",
    /// Detects lines of a ledger that were removed, moved or repeated.
    LedgerChain = "ledger.chain",
    /// Counts free and refused calls past a rate instead of recording each.
    LedgerCounts = "ledger.counts",
    /// Records an effect before it begins.
    LedgerFirst = "ledger.first",
    /// Detects edited lines of a ledger.
    LedgerHash = "ledger.hash",
    /// Hashes parameters with a key, so that guessed values cannot be verified.
    LedgerKeyedHash = "ledger.keyed-hash",
    /// Derives a ledger's file name from plain session ids only.
    LedgerName = "ledger.name",
    /// Redacts secrets in escaped and encoded text.
    LedgerRedactEscaped = "ledger.redact-escaped",
    /// Redacts values of secret command-line options.
    LedgerRedactFlags = "ledger.redact-flags",
    /// Redacts members with secret names.
    LedgerRedactKey = "ledger.redact-key",
    /// Redacts known secrets anywhere in a line.
    LedgerRedactValue = "ledger.redact-value",
    /// Loads only extensions that were checked for options, when an extension started this `pi`.
    LoadChecked = "load.checked",
    /// Continues without an installed extension that fails to load.
    LoadContinues = "load.continues",
    /// Refuses a tag that points to a commit other than the locked one.
    LockCommit = "lock.commit",
    /// Checks the entries of a lock file.
    LockEntries = "lock.entries",
    /// Refuses a different registry for a scope, unless a setting names it.
    LockRegistries = "lock.registries",
    /// Refuses different bytes under a locked version.
    LockSameBytes = "lock.same-bytes",
    /// Refuses an older version than the locked one for the same request.
    LockStepBack = "lock.step-back",
    /// Compares the restored tree with the lock file.
    LockTree = "lock.tree",
    /// Refuses duplicate keys in a lock file.
    LockUnique = "lock.unique",
    /// Limits log lines of one extension.
    LogRate = "log.rate",
    /// Compares an archive's manifest with the registry's.
    ManifestAgrees = "manifest.agrees",
    /// Refuses bundled copies of what the host provides.
    ManifestBundled = "manifest.bundled",
    /// Limits glob patterns of a manifest.
    ManifestGlob = "manifest.glob",
    /// Refuses manifest entries outside of the package.
    ManifestInside = "manifest.inside",
    /// Compares an archive's name and version with the requested ones.
    ManifestNamed = "manifest.named",
    /// Starts MCP servers of the user and of installed packages outside of a folder that is not trusted.
    McpFolder = "mcp.folder",
    /// Withholds MCP tools and prompts whose definitions changed since the user agreed.
    McpPins = "mcp.pins",
    /// Prompts before starting the program of an MCP server whose files changed since the user agreed.
    McpProgram = "mcp.program",
    /// Matches a call of an MCP tool against the granted server and tool.
    McpScope = "mcp.scope",
    /// Redacts the values of `env` and `headers` of MCP servers.
    McpSecrets = "mcp.secrets",
    /// Checks the names of files in a local folder.
    NamesFolder = "names.folder",
    /// Refuses a `.git` file that names a repository outside of the package.
    NamesOutsideRepository = "names.outside-repository",
    /// Refuses file names that some system cannot represent.
    NamesPortable = "names.portable",
    /// Refuses version-control folders inside of a package.
    NamesRepository = "names.repository",
    /// Limits open connections of one extension.
    NetConnections = "net.connections",
    /// Refuses plain connections to this machine.
    NetLoopback = "net.loopback",
    /// Refuses names that resolve to an address that is not public.
    NetPublic = "net.public",
    /// Checks HTTP requests written to raw sockets against the granted host.
    NetRequests = "net.requests",
    /// Limits how many different names are resolved under a wildcard.
    NetResolvedNames = "net.resolved-names",
    /// Limits concurrent name resolutions of one extension.
    NetResolverThreads = "net.resolver-threads",
    /// Judges a socket by its path after links are resolved.
    NetSocketPath = "net.socket-path",
    /// Refers to an open folder by its handle.
    NetStablePath = "net.stable-path",
    /// Refuses to listen at an address of a server that the user's configuration names.
    NetUserServers = "net.user-servers",
    /// Refuses the answer of an authorization server other than the one that was asked.
    OauthAnswerIssuer = "oauth.answer-issuer",
    /// Refuses metadata of an authorization server other than the one that was named.
    OauthIssuer = "oauth.issuer",
    /// Refuses authorization servers without PKCE.
    OauthProof = "oauth.proof",
    /// Refuses resource metadata about another server.
    OauthResource = "oauth.resource",
    /// Ignores answers that do not belong to the pending sign-in.
    OauthState = "oauth.state",
    /// Sends tokens only over https, or within this machine.
    OauthTransport = "oauth.transport",
    /// Escapes control characters in JSON printed to a terminal.
    OutputJson = "output.json",
    /// Restores each package independently of failing ones.
    PackagesEach = "packages.each",
    /// Denies a project's package the right to read the folder that encloses the project.
    PackagesEnclosingFolder = "packages.enclosing-folder",
    /// Denies a project's package the right to read a home that encloses it.
    PackagesEnclosingHome = "packages.enclosing-home",
    /// Refuses malformed package names.
    PackagesNameForm = "packages.name-form",
    /// Refuses repositories whose folders would contain each other.
    PackagesNested = "packages.nested",
    /// Refuses links in a project's package store.
    PackagesNoLinks = "packages.no-links",
    /// Refuses to unpack a dependency into a folder that another package has filled.
    PackagesOwnFolder = "packages.own-folder",
    /// Refuses a name that resembles an installed package's.
    PackagesSimilarName = "packages.similar-name",
    /// Limits how many folders a search for resources visits.
    PackagesWalk = "packages.walk",
    /// Protects copies that tools leave next to protected files.
    PlacesAside = "places.aside",
    /// Protects the settings and the content of a bare repository, in a folder of any name.
    PlacesBareRepository = "places.bare-repository",
    /// Gives data in the extensions folder to the extension of that name.
    PlacesDataOwner = "places.data-owner",
    /// Prevents an extension's location of sessions from displacing one of the user's.
    PlacesForgetAgents = "places.forget-agents",
    /// Protects files that the settings of the project's repositories name as programs, hooks or further settings.
    PlacesGitSettings = "places.git-settings",
    /// Closes the user's keys to programs of an extension that is inspected in a throwaway home.
    PlacesInspectedBy = "places.inspected-by",
    /// Protects targets of links in the folders of skills, prompts and rules.
    PlacesLinkedEntries = "places.linked-entries",
    /// Protects targets of links of the project that have the name of a file which tools or prompts obey.
    PlacesLinkedProjectFiles = "places.linked-project-files",
    /// Protects targets of links that tools obey in subfolders of the project, and in folders above it.
    PlacesLinkedSubfolders = "places.linked-subfolders",
    /// Protects code that was loaded from a local folder.
    PlacesLoadedCode = "places.loaded-code",
    /// Protects code that programs of the settings find through variables, as a folder, or as an editor.
    PlacesNamedPrograms = "places.named-programs",
    /// Protects skills, prompt templates and plugins that options and variables name.
    PlacesNamedTexts = "places.named-texts",
    /// Protects PiJS's own state that links lead to.
    PlacesOwnState = "places.own-state",
    /// Protects the folders in which the user's shell finds programs.
    PlacesSearchPath = "places.search-path",
    /// Protects session folders in every location.
    PlacesSessions = "places.sessions",
    /// Protects only the sessions in a folder that was given to `--session-dir` and holds other files as well.
    PlacesSharedSessions = "places.shared-sessions",
    /// Requires a grant to name the program's own folder among settings of many programs, such as `~/.cache`.
    PlacesSharedSettings = "places.shared-settings",
    /// Closes sessions and ledgers to programs in a folder that also contains a folder of the session.
    PlacesSharedView = "places.shared-view",
    /// Refuses to start with a policy that cannot be parsed.
    PolicyReadable = "policy.readable",
    /// Ignores input typed before a permission prompt could be read.
    PromptDeadTime = "prompt.dead-time",
    /// Shows every part of a changed tool definition.
    PromptDefinition = "prompt.definition",
    /// Indents untrusted text, so that it cannot imitate PiJS's own lines.
    PromptFrame = "prompt.frame",
    /// Sanitises the extension's name in a permission prompt.
    PromptName = "prompt.name",
    /// Shows the whole text of a question before the user can agree.
    PromptNotes = "prompt.notes",
    /// Removes control, bidirectional and invisible characters from prompts.
    PromptSanitised = "prompt.sanitised",
    /// Shows the resolved path and folder of a prompt's subject.
    PromptWhole = "prompt.whole",
    /// Refuses a package whose requests cannot be shown in full.
    PromptWholeRequest = "prompt.whole-request",
    /// Removes credentials from provider addresses that extensions see.
    ProviderAddress = "provider.address",
    /// Limits messages that wait for the model.
    QueuesPendingMessages = "queues.pending-messages",
    /// Limits the size of a hostcall's result.
    QuotaAnswer = "quota.answer",
    /// Limits dialogs of one extension.
    QuotaDialogs = "quota.dialogs",
    /// Limits hostcalls in flight.
    QuotaInFlight = "quota.in-flight",
    /// Limits concurrent model requests of one extension.
    QuotaModelRequests = "quota.model-requests",
    /// Limits model tokens that one extension spends.
    QuotaModelTokens = "quota.model-tokens",
    /// Limits the size of a hostcall.
    QuotaSize = "quota.size",
    /// Applies back-pressure to streams that the realm does not read.
    QuotaStreams = "quota.streams",
    /// Limits completed results that have not been delivered to the realm yet.
    QuotaUndelivered = "quota.undelivered",
    /// Kills a worker that exceeds its turn's deadline.
    RealmDeadline = "realm.deadline",
    /// Kills workers when their host dies.
    RealmDeathSignal = "realm.death-signal",
    /// Starts workers with an empty environment.
    RealmEnvironment = "realm.environment",
    /// Limits size and depth of message headers from a worker.
    RealmHeadSize = "realm.head-size",
    /// Closes inherited files in workers.
    RealmInheritedFiles = "realm.inherited-files",
    /// Denies file access to workers with Landlock.
    RealmLandlock = "realm.landlock",
    /// Sets resource limits for workers.
    RealmLimits = "realm.limits",
    /// Makes workers the first processes to be killed when memory is short.
    RealmOomScore = "realm.oom-score",
    /// Stops restarting an extension that is stopped repeatedly.
    RealmQuarantine = "realm.quarantine",
    /// Denies system calls to workers with seccomp.
    RealmSeccomp = "realm.seccomp",
    /// Stops restarting an extension that is slow at each start.
    RealmSlowStart = "realm.slow-start",
    /// Counts each timer of a realm once.
    RealmTimers = "realm.timers",
    /// Ends a worker that sends a message outside of its turn.
    RealmTurns = "realm.turns",
    /// Refuses a model-facing registration without its capability.
    RegistrationCapability = "registration.capability",
    /// Limits the total size of an extension's registrations.
    RegistrationSize = "registration.size",
    /// Refuses tools and commands whose names or definitions attack the host.
    RegistrationValid = "registration.valid",
    /// Delays updates to versions that were published recently.
    RegistryAge = "registry.age",
    /// Refuses archives from an origin other than the registry's.
    RegistryOrigin = "registry.origin",
    /// Limits the size of a registry's answers.
    RegistrySize = "registry.size",
    /// Limits the reply of an extension's model.
    ReplySize = "reply.size",
    /// Limits the number of values in a reply's tool arguments.
    ReplyValues = "reply.values",
    /// Limits error reports of one extension.
    ReportBudget = "report.budget",
    /// Reads only texts that were checked for options, when an extension started this `pi`.
    ResourcesChecked = "resources.checked",
    /// Refuses context files of a project that link out of it.
    ResourcesContextLinks = "resources.context-links",
    /// Limits the size of context files.
    ResourcesContextSize = "resources.context-size",
    /// Limits nesting of front matter.
    ResourcesFrontMatter = "resources.front-matter",
    /// Skips texts that an extension names but may not read.
    ResourcesNamed = "resources.named",
    /// Skips resources of a package that link out of it.
    ResourcesPackageLinks = "resources.package-links",
    /// Refuses resources that link to protected files.
    ResourcesProtected = "resources.protected",
    /// Limits the text that a prompt template expands to.
    ResourcesTemplateSize = "resources.template-size",
    /// Limits the total size of an extension's resources.
    ResourcesTotalSize = "resources.total-size",
    /// Answers dialogs at once when the RPC client has gone.
    RpcClosed = "rpc.closed",
    /// Refuses rule files that link to protected files.
    RulesProtected = "rules.protected",
    /// Refuses plugins and packages of rummy that link out of their folder.
    RummyLinks = "rummy.links",
    /// Refuses connections of web pages from other machines to the server of rummy's runs.
    RummyOrigin = "rummy.origin",
    /// Gives each plugin of rummy that a variable names a separate realm and separate grants.
    RummyRealms = "rummy.realms",
    /// Refuses connections to the server of rummy's runs without the server's token.
    RummyToken = "rummy.token",
    /// Limits regular expressions in tool schemas.
    SchemaPatterns = "schema.patterns",
    /// Validates expensive schemas on a thread that can be abandoned.
    SchemaWorker = "schema.worker",
    /// Resolves a declared home path below the home directory.
    ScopeHome = "scope.home",
    /// Limits one answer of `read_entries`.
    SessionAnswerSize = "session.answer-size",
    /// Limits how much of a session file is kept in memory.
    SessionCachedBytes = "session.cached-bytes",
    /// Opens and writes only sessions that were checked, when an extension started this `pi`.
    SessionChecked = "session.checked",
    /// Preserves the foreign authorship of copied session lines.
    SessionCopiedAuthorship = "session.copied-authorship",
    /// Prevents custom messages from passing as verdicts.
    SessionCustomRole = "session.custom-role",
    /// Repairs a damaged end of a session file before appending.
    SessionDamaged = "session.damaged",
    /// Detects session lines that PiJS did not write.
    SessionForeignLines = "session.foreign-lines",
    /// Ignores a model that an extension chose when its session is opened again.
    SessionImposedModel = "session.imposed-model",
    /// Leaves sessions of programs that an extension started out of those that `-c` continues.
    SessionOfAgent = "session.of-agent",
    /// Limits what extensions add to a session.
    SessionSize = "session.size",
    /// Detects a session file that changed after it was indexed.
    SessionUnchanged = "session.unchanged",
    /// Limits events that an extension causes and that have not been delivered yet.
    SessionUndeliveredEvents = "session.undelivered-events",
    /// Counts the values of session entries toward their size.
    SessionValues = "session.values",
    /// Limits the part of a session that extensions see at once.
    SessionVisibleBytes = "session.visible-bytes",
    /// Ends the process when shutdown takes too long.
    ShutdownDeadline = "shutdown.deadline",
    /// Abandons an extension's model request at shutdown.
    ShutdownModelRequest = "shutdown.model-request",
    /// Ends print mode on a signal, even if an extension continues.
    ShutdownPrint = "shutdown.print",
    /// Refuses to attach a database whose name is not a literal.
    SqliteAttach = "sqlite.attach",
    /// Denies statements that access anything outside of the database.
    SqliteAuthorizer = "sqlite.authorizer",
    /// Answers a call whose statement does not end.
    SqliteDeadline = "sqlite.deadline",
    /// Limits the memory of SQLite.
    SqliteHeap = "sqlite.heap",
    /// Denies other files to the thread of a database with Landlock.
    SqliteLandlock = "sqlite.landlock",
    /// Limits nesting of SQL.
    SqliteNesting = "sqlite.nesting",
    /// Opens a database by the path that the gate decided about.
    SqlitePath = "sqlite.path",
    /// Refuses pragmas that change the whole process.
    SqliteProcess = "sqlite.process",
    /// Closes databases that keep too much in memory.
    SqliteRetained = "sqlite.retained",
    /// Limits the size of a query's result.
    SqliteRows = "sqlite.rows",
    /// Limits the stack that a statement uses.
    SqliteStack = "sqlite.stack",
    /// Limits threads whose statements do not end.
    SqliteStuckThreads = "sqlite.stuck-threads",
    /// Survives a database file that is truncated while it is mapped into memory.
    SqliteTruncatedMap = "sqlite.truncated-map",
    /// Limits the files that SQLite may remove.
    SqliteUnlink = "sqlite.unlink",
    /// Removes forged verdicts and system messages from an extension's context.
    SystemForged = "system.forged",
    /// Neutralises chat-template markers in text for the system role.
    SystemMarkup = "system.markup",
    /// Grants the system role only with `prompt.modify`.
    SystemRole = "system.role",
    /// Reads no file for a skill that a replayed prompt names.
    TapeSkills = "tape.skills",
    /// Limits size and nesting of sources on a tape before they are compiled.
    TapeSources = "tape.sources",
    /// Limits nesting of rendered Markdown.
    TerminalNesting = "terminal.nesting",
    /// Removes control sequences from text printed to a terminal.
    TerminalSanitise = "terminal.sanitise",
    /// Limits timers of one realm.
    TickTimers = "tick.timers",
    /// Keeps long results of tools in a folder that extensions cannot reach.
    ToolSpilledResults = "tool.spilled-results",
    /// Limits undelivered updates of a tool.
    ToolUpdates = "tool.updates",
    /// Withholds a tool whose definition differs from the definition that the user agreed to.
    ToolsPinnedDefinition = "tools.pinned-definition",
    /// Ignores settings and extensions of an untrusted project.
    TrustFolder = "trust.folder",
    /// Remembers only the user's own answer about trust.
    TrustRemembered = "trust.remembered",
    /// Ignores an Enter key that a listener produced from another key.
    TuiChangedKeys = "tui.changed-keys",
    /// Limits the input that a listener produces from one key.
    TuiChangedSize = "tui.changed-size",
    /// Limits components and suggestion providers of extensions.
    TuiComponents = "tui.components",
    /// Attributes a command for the shell to the extension whose editor submitted it.
    TuiEditorCommand = "tui.editor-command",
    /// Submits an extension's editor only on the user's Enter.
    TuiEditorSubmit = "tui.editor-submit",
    /// Exits on Ctrl+C twice, even if an extension handles keys.
    TuiExitChord = "tui.exit-chord",
    /// Limits text that extensions put into the editor.
    TuiInsertedSize = "tui.inserted-size",
    /// Attributes text that an extension put into the editor.
    TuiInsertedText = "tui.inserted-text",
    /// Runs PiJS's own commands only if the user typed them.
    TuiOwnCommand = "tui.own-command",
    /// Draws permission prompts over everything else.
    TuiQuestionFrame = "tui.question-frame",
    /// Delivers no keys to listeners during a permission prompt.
    TuiQuestionKeys = "tui.question-keys",
    /// Limits path suggestions for extensions to the project.
    TuiSuggestPath = "tui.suggest-path",
    /// Limits text that the terminal lays out.
    TuiTextSize = "tui.text-size",
    /// Limits retries of verdicts by rule, extension and session.
    VerdictCaps = "verdict.caps",
    /// Limits the instructions of one turn of a component.
    WasmFuel = "wasm.fuel",
    /// Refuses imports of a component that neither `pi:extension` nor WASI 0.2 provides.
    WasmImports = "wasm.imports",
    /// Limits the log entries of one turn of a component.
    WasmLog = "wasm.log",
    /// Limits the memory and the tables of a component.
    WasmMemory = "wasm.memory",
    /// Limits one write of a component to its output.
    WasmWrite = "wasm.write",
    /// Limits unanswered pings.
    WebsocketPings = "websocket.pings",
    /// Limits the total size of unfinished messages.
    WebsocketUnfinished = "websocket.unfinished",
}
