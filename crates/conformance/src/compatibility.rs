//! Generates `docs/compatibility.md` from the committed lists and a probe of a realm: supported behaviour, differences, and
//! reasons.

use crate::baseline::Baseline;
use crate::corpus::{Corpus, Kind};
use crate::coverage::{Coverage, NameCount};
use crate::features::Fixture;
use std::fmt::Write;

/// Returns the page. A run over the corpus checks that the corpus matches the baseline.
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

/// Writes the main feature of each package.
fn used(text: &mut String, features: &[Fixture]) {
    text.push_str(
        "\n## Main feature of each package\n\n`pi install npm:NAME@VERSION`, then a session in its sealed worker that uses what the \
         README promises first (`fixtures/features`),\nwith what the install asks for and what was answered on the way. It does what \
         it does in the real pi, item by item.\n\n| package | feature | granted at install | asked on the way | here |\n|---|---|---|---|---|\n",
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

const HOW_TO_READ: &str = "A refused name is there and says when it is\n\
    used what to do instead; its `Symbol.for(\"pijs.refused\")` member is true. A missing one is `undefined`, and `extc check` warns of it.\n";

/// Deliberate differences from pi.
const DEVIATIONS: &str = "\n## On purpose\n\n\
    | pi | here |\n|---|---|\n\
    | a name conflict ends the program | it is reported and the session lives |\n\
    | any extension that fails to load ends the program (pi 0.87; pi 1.5 goes on without a package that it cannot install) | an installed one is reported and the session goes on without it, in every mode; one named by `-e` ends the program, and with `--fail-on-extension-error` so does any |\n\
    | extensions share one process and its objects | each package has a realm of its own; what crosses is copied; a prototype of pi's that one changes is changed for that package, which `extc check` says (`BD_PATCH`) |\n\
    | `.default` of a namespace, or of what `import()` or `require` gave, is the module itself where it has none | `undefined` there; a default that is imported by name is the module, as in pi |\n\
    | extensions load one after the other | at the same time, where realms are processes; names, conflicts, reports and emissions on the bus are those of one after the other, and files, programs and requests of a factory may come before those of the factory in front |\n\
    | what an extension puts on `globalThis` outlives `/reload` | it outlives a change of session; `/reload` begins anew |\n\
    | MCP servers of extensions (pi 1.5: `pi.registerMcpServer`, `unregisterMcpServer`, `getMcpServers`, the event `mcp_servers_change`) start and are called as the user | their members and errors are pi's; a server starts and is called with what its extension was granted (`exec` or `http`, and `mcp` for its tools), and a package may name servers in its manifest (`pi.mcpServers`), too |\n\
    | extensions may do whatever the user may | files outside, programs, servers and variables need a grant |\n\
    | a file imports whatever it names | a single file imports from its own folder, the project and `node_modules` around it, and what `read` grants; a protected file never |\n\
    | a computed `import()` compiles whatever file it names | files of the package that a relative template means were compiled with it; any other file of JavaScript is read as `fs` reads it and compiled when it is imported, with the capability `eval`. It imports Node's modules, pi's packages and what relative templates of the extension name. TypeScript is refused there (`ERR_UNKNOWN_FILE_EXTENSION`), CommonJS runs in strict mode, and a computed name finds typebox, pi-tui and the names of pi's other packages that are this program's own |\n\
    | a search upwards finds what lies above the project | it ends at the project, as at the top of the file system |\n\
    | `AGENTS.md` is read wherever it leads | one that is a link out of the project counts once the folder is trusted; one of more than 1 MiB is left out; both are said |\n\
    | sub-agents (`createAgentSession`) load files of extensions, and have what the user has | they run in the realm of their extension with what it may do; extensions are given to them as functions (`extensionFactories`), a file is an error in `extensionsResult.errors` |\n\
    | a `ModelRuntime` reads `auth.json` and pi's catalogue | it has the session's providers and names for their keys; the gate decides on each request (`session.inject`) |\n\
    | `convertToPng` and `resizeImage` decode images | they give `null` where they would have to, as in a pi that lacks its image library |\n\
    | the built-in system prompt, what the model is told of the built-in tools, and how it is asked for summaries | pi's words, from its own package, once a start with an extension could fetch it; before that and with `PIJS_WORDS=own`, words of our own |\n\
    | `eval` and `new Function` compile any text | with the capability `eval`, which a package asks for that puts such text together (Ajv, Handlebars, EJS, lodash's templates, Pug, protobuf.js); without it they throw what an engine without a compiler throws, and `new Function(\"\")`, by which a library asks whether it may, asks nobody. A direct `eval` sees no local names |\n\
    | the source of a function is its text (`String(run)`) | the text it has in the bundle; of modules beyond 2 MB and of what pi supplies, that of a built-in one |\n\
    | an error of the language quotes the source (`load is not a function`, `x is not iterable`) | a call of what is none is quoted, and what is gone through in a loop; where something is taken apart (`const { a } = b`), and where the language itself calls (`[1].map(2)`), it says less (`Cannot convert undefined or null to object`, `not a function`). Most others, of `JSON.parse` and of `RegExp` too, have V8's words |\n\
    | WebAssembly is compiled to machine code, and its memory freed with the objects | it is interpreted, some ten to fifty times slower, and what it has counts toward the realm's limits until the realm ends; exception handling (`WebAssembly.Tag`), garbage-collected types, shared and 64-bit memories are not there: such a module is a `CompileError` that says which, and `WebAssembly.Tag` and `WebAssembly.Exception` throw when they are used ([design](design/0001-webassembly-in-javascript.md)) |\n\
    | `Intl` knows every locale | it writes American English; dates of numbers alone are ordered as in `en-CA`, `en-GB`, `de`, `fr` and `sv`, too |\n\
    | install scripts of packages | never run |\n\
    | a git package is checked out with its links | a link that stays inside the repository becomes a copy of what it names; one that names nothing, or a folder around itself, is left out with a remark; one that leaves refuses the package (`IN_LINK`) |\n\
    | `npm install` links workspaces and `file:` folders into `node_modules` | nothing is linked on disk: a build finds them by name as if they were, and what they need is installed with the package |\n\
    | a folder's dependencies are its user's to install | `pi install ./folder` fetches those that are missing into the folder's `node_modules`; no script runs |\n\
    | packages are kept and loaded through any link | of a project, nothing of its store, settings and lock file is changed through a link, and no package of its store is loaded through one; a user's own folder, `npm`, `git`, settings and lock file may be links |\n\
    | a git package may lie in the folder of another (`git:HOST/a/b` and `git:HOST/a/b/c`) | the second is refused in the same scope: what updates or removes one takes the other along |\n\
    | a project may name a folder around itself as a package | not beyond its own repository: a package reads its own folder |\n\
    | a promise of a handler is waited for without end | past a budget in which nothing is under way it is given up (`docs/security.md`) |\n\
    | an extension may write into `~/.pi/agent/extensions` and `.pi/extensions` | refused in every mode, its own folder there included: what lies there is loaded at the next start |\n\
    | what a command of `bash` leaves running outlives pi | it ends with pi, however that ends |\n\
    | a program may be given any search path | folders added to the host's own are left out; another path is refused |\n\
    | a `WeakRef` may lose its target, and a `FinalizationRegistry` calls | a reference keeps its target, and a registry never calls: what is collected when would make two runs differ |\n\
    | the second of two dialogs of one moment takes the place of the first, which is never answered | they wait for one another, the later one on top |\n\
    | Ctrl-C in a dialog counts for nothing but the dialog | two of them end pi, whatever has the keys |\n\
    | `pi config`, `pi auth`, `--tui-mode regular`, `/share` | not here; each says what to do instead |\n\
    | `--export` and `/export` write pi's page with its scripts | a page that shows text and does nothing, Markdown, or the session's own lines, as the file's name ends |\n\
    | a session that another program wrote or changed opens like any other | it opens, says so on standard error, and what that program wrote does not count as yours until the model has answered you ([security.md](security.md)) |\n\
    | `--session` with a session of another folder goes on in that folder | it goes on in this one, and says so; by its id alone it is copied with `--fork` |\n\
    | an RPC command that lacks a member, or has one of another type, is done with `undefined` or answered with a JavaScript error | the response says which member has to be what |\n\
    | requests to models name their client (`user-agent`, headers of OpenAI's and Anthropic's libraries) and the session (`session_id`, `x-client-request-id`, `x-session-affinity`) | they name neither; the session stands in the body where pi puts it (`prompt_cache_key`) |\n\
    | what the model is told in the middle of a conversation (`supportsMidConvoSystemMessages`), tools of a grammar, effort that changes from turn to turn | in front of the conversation, as for models that lack these |\n\
    | the first handler of what a call changes or says (`session_info_changed`, `thinking_level_select`, `model_select`, `input`, `tool_execution_update`, `agent_start` after `triggerTurn`) begins before the call returns, each other one after it | so does one of `session_info_changed` and `thinking_level_select` that is the caller's own; others begin once the handler that called has given way |\n\
    | `process.exit()` of an extension ends the program at once | with `session.control` the session ends in order, `session_shutdown` included, and the program with that code; without it the call is an error |\n\
    | a slash command that throws ends `pi -p` with 0 | with 1 |\n\
    | an extension reads `~/.ssh/config` for its hosts, and the sessions of other programs and folders | both are protected, whatever was granted |\n\
    | `git rev-parse` of an extension works inside a bare repository | it is refused there: what lies in a folder could be a repository whose settings run programs (`safe.bareRepository`) |\n\
    | what `auth.json` has for a provider goes to whatever extension registers its name with `oauth` | to the one through which it was stored (`/login`); names of pi's own providers are nobody's |\n\
    | `/llama`, a command of pi's own for a local server of models | not here; `--base-url` reaches such a server |\n";

/// Behaviour under `--profile 0.73`.
const PROFILE: &str = "\n## The profile of pi 0.73.1\n\n\
    Extensions that were written for pi 0.73.1 can be given what differs there: `pi --profile 0.73`, or `extensionProfile` in\n\
    `settings.json` of the user, for all extensions of a session; `pi ext drive` and `pi ext snapshot` take the option, too. What\n\
    is listed was captured from that pi (`fixtures/legacy`; RPC mode was read in its code) and is held by a test.\n\n\
    | 0.87.1 | under the profile |\n|---|---|\n\
    | 41 events | the 29 of 0.73.1; handlers of others are accepted and never called |\n\
    | the loop waits for handlers of `agent_start`, `agent_end`, `turn_*`, `message_*` and `tool_execution_*` | it goes on; they run one after the other, and before a `tool_call` that somebody hears |\n\
    | `turn_end` has entries, an outcome and a say in what comes next; `systemPromptOptions` has sections | they have not |\n\
    | `ctx.mode`, `isProjectTrusted`, `scopedModels`, `thinkingLevel`, `getSystemPromptOptions`, renderers of entries and of Markdown, requests by `ctx.modelRegistry` | absent |\n\
    | `pi.on` gives a function that takes the handler away | it gives nothing; `pi.events.clear` is there |\n\
    | a tool needs an object schema, a flag's default its type | they are not looked at |\n\
    | `pi`, contexts and listeners of the bus end with a reload | they work on until the next reload or another session |\n\
    | modules stay for the next session, and their factories run again | every session evaluates them anew |\n\
    | `bash` of RPC mode is told to handlers of `user_bash` | it is not |\n\
    | `VERSION` is `0.87.1` | `0.73.1` |\n\n\
    Not reproduced: the text of the system prompt and pi's own modules are those of 0.87.1; `message_end` is waited for, so that its answer\n\
    always counts (there it does if it is in time); a message is in the session before its events are told; imports from `@earendil-works` work.\n\
    Names that only the old packages have are missing, as in pi 0.87.1: `AuthStorage` and its two back ends, `TUI`, `clearApiProviders`, what\n\
    `pi-ai/oauth` exports, `ctx.modelRegistry.authStorage`, and members that were never documented.\n";

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
