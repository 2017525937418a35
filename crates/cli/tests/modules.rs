//! Ways to write and to bundle an extension, each built and run by the command.

mod support;

use support::{Run, World, fixture};

/// Loads one extension, lets it answer through `pi.registerCommand`, and returns what it notified.
fn answer(world: &World, path: &str) -> Run {
    let model = world.script(&[&["hi"]]);
    // Some compute for seconds in one turn, which a busy machine makes a minute; none is about the length of a turn.
    world.write("home/.pi/agent/settings.json", r#"{"extensions": {"policy": {"max_turn_ms": 600000}}}"#);
    // Some serve themselves.
    let allowed = ["--allow", "write", "--allow", "http:127.0.0.1:0"];
    world.pi(&[&["-p", "/answer", "--model", &model, "--mode", "json", "-e", path], &allowed[..]].concat())
}

const REPORT: &str = "import { writeFileSync } from 'node:fs';
export const report = (pi: any, value: () => unknown) => pi.registerCommand('answer', {
  handler: async (_: string, ctx: any) => writeFileSync(ctx.cwd + '/answer.txt', String(await value())) });\n";

fn check(files: &[(&str, &str)], expected: &str) {
    let world = World::new();
    world.write("project/ext/report.ts", REPORT);
    for (path, text) in files {
        world.write(&format!("project/ext/{path}"), text);
    }
    let path = world.project().join("ext/index.ts").display().to_string();
    let run = answer(&world, &path);
    run.succeeded();
    assert!(world.project().join("answer.txt").exists(), "{}\n{}", run.stdout, run.stderr);
    assert_eq!(world.read("project/answer.txt"), expected);
}

#[test]
fn a_commonjs_dependency() {
    check(
        &[
            (
                "index.ts",
                "import shout, { whisper } from 'loud';\nimport { report } from './report.ts';\nexport default (pi) => report(pi, () => shout('a') + whisper('B'));",
            ),
            ("package.json", r#"{"name":"x","version":"1.0.0","dependencies":{"loud":"1.0.0"}}"#),
            ("node_modules/loud/package.json", r#"{"name":"loud","version":"1.0.0","main":"./main.js"}"#),
            (
                "node_modules/loud/main.js",
                "const { up } = require('./up');\nmodule.exports = (s) => up(s) + '!';\nmodule.exports.whisper = (s) => s.toLowerCase();",
            ),
            ("node_modules/loud/up.js", "exports.up = (s) => s.toUpperCase();"),
        ],
        "A!b",
    );
}

#[test]
fn an_esm_dependency_with_an_exports_map() {
    check(
        &[
            (
                "index.ts",
                "import { twice } from 'maths/twice';\nimport { report } from './report.js';\nexport default (pi) => report(pi, () => twice(21));",
            ),
            ("package.json", r#"{"name":"x","version":"1.0.0","dependencies":{"maths":"1.0.0"}}"#),
            (
                "node_modules/maths/package.json",
                r#"{"name":"maths","version":"1.0.0","type":"module","exports":{"./twice":{"import":"./src/twice.mjs"}}}"#,
            ),
            ("node_modules/maths/src/twice.mjs", "export const twice = (n) => n * 2;"),
        ],
        "42",
    );
}

#[test]
fn a_dynamic_import() {
    check(
        &[
            (
                "index.ts",
                "import { report } from './report';\nexport default (pi) => report(pi, async () => (await import('./later.ts')).value);",
            ),
            ("later.ts", "export const value: string = 'later';"),
        ],
        "later",
    );
}

#[test]
fn top_level_await() {
    check(
        &[(
            "index.ts",
            "import { report } from './report';\nconst value = await Promise.resolve('awaited');\nexport default (pi) => report(pi, () => value);",
        )],
        "awaited",
    );
}

#[test]
fn parameter_properties_enums_namespaces_decorators() {
    check(
        &[(
            "index.ts",
            "import { report } from './report';
enum Colour { Red = 'r', Green = 'g' }
const enum Size { Small = 1, Large }
namespace Shapes { export const sides = (n: number) => n + 1; }
function tag(target: any, key: string, descriptor: PropertyDescriptor) {
  const inner = descriptor.value; descriptor.value = function (...args: any[]) { return '<' + inner.apply(this, args) + '>'; };
}
class Box<T> { constructor(private readonly value: T, public size: Size = Size.Large) {}
  @tag show(): string { return `${this.value}${this.size}`; } }
export default (pi) => report(pi, () => new Box(Colour.Green).show() + Shapes.sides(3));",
        )],
        "<g2>4",
    );
}

#[test]
fn json_and_commonjs_entries() {
    check(
        &[
            (
                "index.ts",
                "import data from './data.json';\nimport old = require('./old.cjs');\nimport { report } from './report';\nexport default (pi) => report(pi, () => data.n + old.n);",
            ),
            ("data.json", r#"{"n": 40}"#),
            ("old.cjs", "exports.n = 2;"),
        ],
        "42",
    );
}

#[test]
fn both_scopes_of_the_host_packages() {
    check(
        &[(
            "index.ts",
            "import type { ExtensionAPI } from '@mariozechner/pi-coding-agent';
import { getAgentDir as a } from '@mariozechner/pi-coding-agent';
import { getAgentDir as b } from '@earendil-works/pi-coding-agent';
import * as host from '@earendil-works/pi-coding-agent';
import { report } from './report';
export default (pi: ExtensionAPI) => report(pi, () => [a === b, typeof a(), (host as any).noSuchName].join());",
        )],
        "true,string,",
    );
}

#[test]
fn node_layer_and_globals() {
    check(
        &[(
            "index.ts",
            "import fs, { existsSync } from 'fs';
import * as path from 'node:path';
import { readFile } from 'node:fs/promises';
import { promisify, inspect } from 'node:util';
import { fileURLToPath } from 'url';
import os from 'node:os';
import { report } from './report';
export default (pi) => report(pi, async () => {
  const dir = fs.mkdtempSync(path.join(process.cwd(), 'tmp-'));
  const file = path.join(dir, 'a.txt');
  fs.writeFileSync(file, 'héllo');
  const sync = fs.readFileSync(file, 'utf8');
  const promised = await readFile(file, { encoding: 'utf8' });
  const back = await promisify(fs.readFile)(file, 'utf8');
  let code; try { fs.readFileSync(path.join(dir, 'none')); } catch (error) { code = error.code + ':' + error.syscall; }
  await new Promise((resolve) => setTimeout(resolve, 5));
  const url = new URL('../b?x=1#y', 'http://h/a/c/');
  const copy = structuredClone(new Map([[1, { a: [1, 2] }]]));
  const beside = existsSync(fileURLToPath(new URL('./report.ts', import.meta.url)));
  fs.rmSync(dir, { recursive: true });
  return [sync, promised, back, code, url.href, copy.get(1).a.length, new TextEncoder().encode('é').length, inspect({ a: 1 }), beside,
    existsSync(dir), os.homedir() === process.env.HOME, new AbortController().signal.aborted, Buffer.from('hi').toString('base64')].join('|');
});",
        )],
        "héllo|héllo|héllo|ENOENT:open|http://h/a/b?x=1#y|2|2|{ a: 1 }|true|false|true|false|aGk=",
    );
}

#[test]
fn names_that_a_host_module_lacks_are_undefined() {
    check(
        &[(
            "index.ts",
            "import { noSuch, getAgentDir } from '@earendil-works/pi-coding-agent';
import fs, { nope, existsSync } from 'node:fs';
import host from '@mariozechner/pi-coding-agent';
import { report } from './report';
export default (pi) => report(pi, () => [noSuch, nope, typeof getAgentDir, typeof existsSync, typeof fs.readFileSync, typeof host.getAgentDir].join());",
        )],
        ",,function,function,function,function",
    );
}

#[test]
fn what_the_compiler_says_of_an_artifact_is_what_the_schema_says() {
    let path = format!("{}/../../schema/pi.ext.artifact.v1.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_slice(&std::fs::read(path).expect("a schema")).expect("json");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let world = World::new();
    world.write(
        "project/risky.ts",
        "export default (pi) => pi.on('tool_call', () => { eval('1'); fetch('https://a.b/c'); });",
    );
    let package = support::pi_ttsr();
    for extension in [package.as_str(), "./risky.ts"] {
        let shown = world.pi(&["ext", "show", extension, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&shown.succeeded().stdout).expect("json");
        let wrong: Vec<String> = validator.iter_errors(&document["artifact"]).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new());
    }
    assert!(!validator.is_valid(&serde_json::json!({ "schema": "pi.ext.artifact.v1" })));
}

/// `expected.txt` is what Node wrote (`fixtures/capture.mjs`).
fn says_what_node_says(folder: &str) {
    let world = World::new();
    let run = answer(&world, &fixture(folder));
    run.succeeded();
    let expected = std::fs::read_to_string(fixture(&format!("{folder}/expected.txt"))).expect("what Node wrote");
    assert_eq!(world.read("project/answer.txt"), expected, "{}", run.stderr);
}

#[test]
fn stores_follow_what_waits() {
    says_what_node_says("contexts");
}

#[test]
fn questions_about_growing_text_are_answered_as_if_all_of_it_were_read() {
    says_what_node_says("growing");
}

#[test]
fn callbacks_come_without_options_too() {
    says_what_node_says("callbacks");
}

#[test]
fn errors_of_the_engine_say_what_nodes_say() {
    says_what_node_says("wording");
}

#[test]
fn what_is_hostile_long_or_deep_is_inspected() {
    says_what_node_says("inspected");
}

#[test]
fn code_that_a_library_writes_is_interpreted() {
    says_what_node_says("interpreted");
}

#[test]
fn content_codings_are_taken_as_node_takes_them() {
    says_what_node_says("codings");
}

#[test]
fn requests_are_read_however_they_are_cut() {
    says_what_node_says("pieces");
}
