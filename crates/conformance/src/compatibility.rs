//! Generates `docs/compatibility.md` from the committed lists and a probe of a realm: supported behaviour, differences, and
//! reasons.

use crate::baseline::Baseline;
use crate::corpus::{Corpus, Kind};
use crate::coverage::{Coverage, NameCount};
use crate::features::Fixture;
use std::fmt::Write;

/// Returns the page. A separate run over the corpus checks that the baseline is correct.
pub fn page(corpus: &Corpus, baseline: &Baseline, coverage: &Coverage, features: &[Fixture]) -> String {
    let all = |kind| corpus.cases.iter().filter(|case| case.kind == kind).count();
    let mut text = format!(
        "# Compatibility with pi\n\nWritten by `cargo xtask conformance --docs`; do not edit by hand.\n\n\
         Extensions of the corpus are run here and were run in the real pi 0.87.1; the documents are compared item by item\n\
         (`fixtures/conformance/format.md`).\n\n| compared | as in pi | cases |\n|---|---|---|\n\
         | registrations (`pi ext snapshot`) | {} | {} |\n| behaviour (`pi ext drive`) | {} | {} |\n\n\
         ## Known differences\n\n",
        baseline.same.snapshots,
        all(Kind::Snapshot),
        baseline.same.traces,
        all(Kind::Trace),
    );
    if baseline.known.is_empty() {
        text.push_str("None.\n");
    } else {
        text.push_str("| case | why |\n|---|---|\n");
        for (case, reason) in &baseline.known {
            let _ = writeln!(text, "| {} | {} |", cell(case), cell(reason));
        }
    }
    used(&mut text, features);
    text.push_str(DEVIATIONS);
    text.push_str(PROFILE);
    let _ = write!(
        text,
        "\n## API coverage by member\n\nNames of {}, looked for in a realm. Each of pi's packages is there under both scopes, \
         `@earendil-works` and\n`@mariozechner`. {HOW_TO_READ}\n",
        coverage.api_of
    );
    table(&mut text, "of", &coverage.api);
    let _ = write!(
        text,
        "\n## Node coverage by module\n\nNames of {}, looked for in a realm; modules under both spellings, `fs` and `node:fs`. \
         {HOW_TO_READ}\n",
        coverage.node_of
    );
    table(&mut text, "module", &coverage.node);
    text
}

/// Appends the section about the main feature of each package.
fn used(text: &mut String, features: &[Fixture]) {
    text.push_str(
        "\n## Main feature of each package\n\n`pi install npm:NAME@VERSION`, then a session in its sealed worker that uses what the \
         README promises first (`fixtures/features`),\nwith the grants that the installation requests and the answers to later prompts. Its \
         behaviour is that of the real pi, item by item.\n\n| package | feature | granted at install | asked on the way | here |\n|---|---|---|---|---|\n",
    );
    for fixture in features {
        let granted: Vec<String> = fixture.granted.iter().map(|name| format!("`{name}`")).collect();
        let asked: Vec<String> = fixture.asked.iter().map(|consent| cell(first_line(&consent.question))).collect();
        let known = fixture.known.values().map(String::as_str);
        let reasons: Vec<&str> =
            Some(fixture.reason.as_str()).into_iter().filter(|reason| !reason.is_empty()).chain(known).collect();
        let here = match (fixture.reason.is_empty(), reasons.is_empty()) {
            (true, true) => "as in pi".to_owned(),
            (true, false) => format!("as in pi; {}", reasons.join("; ")),
            (false, _) => format!("in part: {}", reasons.join("; ")),
        };
        let (package, feature) = (&fixture.package, cell(&fixture.feature));
        let _ = writeln!(
            text,
            "| {package} | {feature} | {} | {} | {} |",
            granted.join(" "),
            asked.join("; "),
            cell(&here)
        );
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end_matches(": ")
}

const HOW_TO_READ: &str = "A refused name exists; using it throws an\n\
    error that says what to do instead. Its `Symbol.for(\"pijs.refused\")` member is true. A missing one is `undefined`, and `extc check` warns of it.\n";

/// Deliberate differences from pi.
const DEVIATIONS: &str = "\n## On purpose\n\n\
    | pi | here |\n|---|---|\n\
    | a name conflict ends the program | the conflict is reported and the session continues |\n\
    | any extension that fails to load ends the program (pi 0.87; pi 1.5 continues without a package that it cannot install) | an installed extension is reported and the session continues without it, in every mode; an extension named by `-e` ends the program, and with `--fail-on-extension-error` any extension does |\n\
    | extensions share one process and its objects | each package has its own realm, and values that cross between realms are copied; a changed prototype of pi's classes is changed for that package only, which `extc check` reports (`BD_PATCH`) |\n\
    | `.default` of a namespace, or of the result of `import()` or `require`, is the module itself if it has no default export | it is `undefined`; a default that is imported by name is the module, as in pi |\n\
    | extensions load one after the other | concurrently, where realms are processes. Names, conflicts, reports and emissions on the bus have the same order as in pi; files, programs and requests of a factory may come before those of the previous factory |\n\
    | members of `globalThis` that an extension sets survive `/reload` | they survive a change of session, but not `/reload` |\n\
    | MCP servers of extensions (pi 1.5: `pi.registerMcpServer`, `unregisterMcpServer`, `getMcpServers`, the event `mcp_servers_change`) start and are called as the user | their members and errors are pi's; a server starts and is called under the grants of its extension (`exec` or `http`, and `mcp` for its tools), and a package may also name servers in its manifest (`pi.mcpServers`) |\n\
    | extensions have all rights of the user | files elsewhere, programs, servers and variables need a grant |\n\
    | a file imports whatever it names | a single file imports from its own folder, the project and the `node_modules` of parent folders, and from files that `read` grants, but never from a protected file |\n\
    | a computed `import()` compiles whatever file it names | package files that match a relative template are compiled with the package; any other JavaScript file is read as `fs` reads it and compiled when it is imported, with the capability `eval`. Such a file can import Node's modules, pi's packages and the files of the extension's relative templates. TypeScript is refused there (`ERR_UNKNOWN_FILE_EXTENSION`), CommonJS runs in strict mode, and a computed name resolves to typebox, pi-tui, and those names of pi's other packages that PiJS implements itself |\n\
    | a search in parent folders goes beyond the project | it ends at the project, as if that were the root of the file system |\n\
    | `AGENTS.md` is read even if it is a link out of the project | a link out of the project is read only if the folder is trusted; a file of more than 1 MiB is ignored; a message reports both |\n\
    | sub-agents (`createAgentSession`) load files of extensions, and have all rights of the user | they run in the realm of their extension with its grants; extensions are passed to them as functions (`extensionFactories`), and a file is an error in `extensionsResult.errors` |\n\
    | a `ModelRuntime` reads `auth.json` and pi's catalogue | it has the session's providers, and substitutes for their keys; the gate decides each request (`session.inject`) |\n\
    | `convertToPng` and `resizeImage` decode images | they return `null` where an image would have to be decoded, as in a pi without its image library |\n\
    | the built-in system prompt, the descriptions of the built-in tools, and the prompts for summaries | pi's texts, from its package, after a start with an extension could fetch it; before that, and with `PIJS_WORDS=own`, PiJS's own texts |\n\
    | `eval` and `new Function` compile any text | with the capability `eval`, which a package requests if it generates code (Ajv, Handlebars, EJS, lodash's templates, Pug, protobuf.js); without it they throw the error of an engine without a compiler, and `new Function(\"\")`, with which libraries probe for the permission, prompts nobody. A direct `eval` sees no local names |\n\
    | the source of a function is its text (`String(run)`) | its text in the bundle; for functions of modules of more than 2 MB and of pi's packages, the text of a built-in function |\n\
    | an error of the language quotes the source (`load is not a function`, `x is not iterable`) | the source is quoted for a call of a non-function and for iteration in a loop; for destructuring (`const { a } = b`), and for calls by the language itself (`[1].map(2)`), the message is less specific (`Cannot convert undefined or null to object`, `not a function`). Most other messages, including those of `JSON.parse` and `RegExp`, are V8's |\n\
    | WebAssembly is compiled to machine code, and its memory freed with the objects | it is interpreted, ten to fifty times slower, and its memory is charged to the realm's limits until the realm ends; exception handling (`WebAssembly.Tag`), garbage-collected types, shared and 64-bit memories are not supported: compiling such a module is a `CompileError` that names the feature, and `WebAssembly.Tag` and `WebAssembly.Exception` throw when they are used ([design](design/0001-webassembly-in-javascript.md)) |\n\
    | `Intl` knows every locale | it formats in American English; numeric dates also have the orders of `en-CA`, `en-GB`, `de`, `fr` and `sv` |\n\
    | install scripts of packages run | they never run |\n\
    | a git package is checked out with its links | a link inside the repository is replaced by a copy of its target; a link without a target, or to one of its parent folders, is left out with a warning; a link out of the repository is an error (`IN_LINK`) |\n\
    | `npm install` links workspaces and `file:` folders into `node_modules` | nothing is linked on disk: a build resolves their names as if they were linked, and their dependencies are installed with the package |\n\
    | the user installs the dependencies of a folder | `pi install ./folder` fetches missing dependencies into the folder's `node_modules`; no script runs |\n\
    | packages are stored and loaded through any link | for a project, the store, settings and lock file are not changed through a link, and no package of the store is loaded through a link; the user's own folder, `npm`, `git`, settings and lock file may be links |\n\
    | a git package may lie in the folder of another (`git:HOST/a/b` and `git:HOST/a/b/c`) | the second is refused in the same scope, because updating or removing the first would affect it |\n\
    | a project may name one of its parent folders as a package | only inside its own repository, because a package may read its own folder |\n\
    | the agent waits for a handler's promise without a limit | if nothing is in flight for a certain time, it stops waiting (`docs/security.md`) |\n\
    | an extension may write into `~/.pi/agent/extensions` and `.pi/extensions` | refused in every mode, including its own folder there, because the files there are loaded at the next start |\n\
    | background processes of a `bash` command survive pi | they end with pi, however pi ends |\n\
    | a program may get any search path | folders that are added to the host's path are removed; another path is refused |\n\
    | a `WeakRef` may lose its target, and a `FinalizationRegistry` calls | a reference keeps its target, and a registry never calls, because the time of garbage collection would make two runs differ |\n\
    | a second concurrent dialog replaces the first, which is never answered | both stay open, the later one on top |\n\
    | Ctrl-C in a dialog affects the dialog only | pressing it twice ends pi, whatever has the focus |\n\
    | `pi config`, `pi auth`, `--tui-mode regular`, `/share` | not supported; each says what to do instead |\n\
    | `--export` and `/export` write pi's page with its scripts | depending on the suffix of the file name: a page of text without scripts, Markdown, or the lines of the session file |\n\
    | a session that another program wrote or changed opens like any other | it opens with a message on standard error, and entries of that program are treated as untrusted until the model has answered you ([security.md](security.md)) |\n\
    | `--session` with a session of another folder continues in that folder | it continues in the current folder, with a message; a session that is named by its id only has to be copied with `--fork` |\n\
    | an RPC command that lacks a member, or has one of another type, is executed with `undefined` or fails with a JavaScript error | the response names the member and its type |\n\
    | requests to models name their client (`user-agent`, headers of OpenAI's and Anthropic's libraries) and the session (`session_id`, `x-client-request-id`, `x-session-affinity`) | the headers name neither; the body contains the session where pi puts it (`prompt_cache_key`) |\n\
    | system messages in the middle of a conversation (`supportsMidConvoSystemMessages`), tools with a grammar, effort that changes between turns | placed before the conversation, as for models that lack these features |\n\
    | the first handler of the event that a call causes (`session_info_changed`, `thinking_level_select`, `model_select`, `input`, `tool_execution_update`, `agent_start` after `triggerTurn`) begins before the call returns, each other one after it | so does a handler of `session_info_changed` and `thinking_level_select` of the calling extension; others begin after the calling handler has yielded |\n\
    | `process.exit()` of an extension ends the program at once | with `session.control` the session shuts down, including `session_shutdown`, and the program exits with that code; without it the call is an error |\n\
    | `pi -p` exits with 0 after a slash command that throws | it exits with 1 |\n\
    | an extension reads `~/.ssh/config` for its hosts, and the sessions of other programs and folders | both are protected; no grant covers them |\n\
    | `git rev-parse` of an extension works inside a bare repository | it is refused, because a folder could contain a repository whose settings run programs (`safe.bareRepository`) |\n\
    | credentials in `auth.json` are passed to any extension that registers the provider's name with `oauth` | they are passed only to the extension through which they were stored (`/login`); those of pi's own providers are passed to no extension |\n\
    | `/llama`, pi's command for a local model server | not supported; use `--base-url` for such a server |\n";

/// Behaviour under `--profile 0.73`.
const PROFILE: &str = "\n## The profile of pi 0.73.1\n\n\
    Extensions that were written for pi 0.73.1 can use its behaviour: `pi --profile 0.73`, or `extensionProfile` in\n\
    `settings.json` of the user, for all extensions of a session; `pi ext drive` and `pi ext snapshot` also take the option. The behaviours\n\
    listed here were captured from pi 0.73.1 (RPC mode was read in its code); `fixtures/legacy` has the cases, and a test checks them.\n\n\
    | 0.87.1 | under the profile |\n|---|---|\n\
    | 41 events | the 29 of 0.73.1; handlers of others are accepted and never called |\n\
    | the loop waits for handlers of `agent_start`, `agent_end`, `turn_*`, `message_*` and `tool_execution_*` | it does not wait; they run one after the other, and finish before a `tool_call` event that has handlers |\n\
    | `turn_end` has entries and an outcome, and its handlers can decide whether the run continues; `systemPromptOptions` has sections | absent |\n\
    | `ctx.mode`, `isProjectTrusted`, `scopedModels`, `thinkingLevel`, `getSystemPromptOptions`, renderers of entries and of Markdown, requests by `ctx.modelRegistry` | absent |\n\
    | `pi.on` returns a function that removes the handler | it returns `undefined`; `pi.events.clear` exists |\n\
    | a tool needs an object schema, and the default of a flag must have its type | neither is checked |\n\
    | `pi`, contexts and listeners of the bus end with a reload | they keep working until the next reload or another session |\n\
    | modules are kept for the next session, and their factories run again | each session evaluates them again |\n\
    | handlers of `user_bash` are called for `bash` of RPC mode | they are not |\n\
    | `VERSION` is `0.87.1` | `0.73.1` |\n\n\
    Not reproduced: the text of the system prompt and pi's own modules are those of 0.87.1; the loop waits for `message_end`, so that its result\n\
    is always used (in 0.73.1 only if it is in time); a message is in the session before its events are emitted; imports from `@earendil-works` work.\n\
    Names that only the old packages have are missing, as in pi 0.87.1: `AuthStorage` and its two back ends, `TUI`, `clearApiProviders`, the exports of\n\
    `pi-ai/oauth`, `ctx.modelRegistry.authStorage`, and undocumented members.\n";

fn table(text: &mut String, head: &str, lists: &[NameCount]) {
    let _ = write!(text, "\n| {head} | names | here | refused | missing |\n|---|---|---|---|---|\n");
    for list in lists {
        let here = list.names - list.missing.len() - list.refused.len();
        let _ = writeln!(
            text,
            "| {} | {} | {here} | {} | {} |",
            list.title,
            list.names,
            names(&list.refused),
            names(&list.missing)
        );
    }
}

fn names(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
