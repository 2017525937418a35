//! Tests module formats and bundles of extensions; each is built and run by the command.

mod support;

use support::World;

const REPORT: &str = "import { writeFileSync } from 'node:fs';
export const report = (pi: any, value: () => unknown) => pi.registerCommand('answer', {
  handler: async (_: string, ctx: any) => writeFileSync(ctx.cwd + '/answer.txt', String(await value())) });\n";

fn check(files: &[(&str, &str)], expected: &str) {
    check_granted(&[], files, expected);
}

fn check_granted(grants: &[&str], files: &[(&str, &str)], expected: &str) {
    let world = World::new();
    world.write("project/ext/report.ts", REPORT);
    for (path, text) in files {
        world.write(&format!("project/ext/{path}"), text);
    }
    let path = world.project().join("ext/index.ts").display().to_string();
    let run = world.answer(&path, grants);
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

/// Imports files that the extension writes first. `CASES` is a list of functions; each line of the answer is the result of one of
/// them.
const WRITES: &str = r#"
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { report } from "./report";
const here = import.meta.dirname;
const write = (name: string, text: string) => {
  writeFileSync(join(here, name), text);
  return join(here, name);
};
const load = (name: string) => import(`./parts/${name}.ts`);
const tried = async (what: () => Promise<unknown>) => {
  try {
    return String(await what());
  } catch (error: any) {
    return `${error.code ?? error.name}: ${error.message.replaceAll(here, "HERE")}`;
  }
};
export default (pi: any) => report(pi, async () => {
  const lines = [];
  for (const what of [CASES]) lines.push(await tried(what));
  return lines.join("\n");
});
"#;

fn check_written(grants: &[&str], cases: &str, expected: &str) {
    let part = "export const one: number = 1; export default { of: 'the bundle' };";
    let index = WRITES.replace("CASES", cases);
    check_granted(grants, &[("index.ts", &index), ("parts/one.ts", part)], expected);
}

#[test]
fn files_that_an_extension_writes_and_then_imports() {
    check_written(
        &["--allow", "eval"],
        r##"
    async () => (await import(write("a.mjs", "export const a = 'by path'"))).a,
    async () => (await import(pathToFileURL(join(here, "a.mjs")).href)) === (await import(join(here, "a.mjs"))),
    async () => (await import(pathToFileURL(write("a.mjs", "export const a = 'by query'")).href + "?again")).a,
    async () => (await import(join(here, "a"))).a,
    async () => (await import(write("b.mjs", "import { basename } from 'path'; import of, { one } from './parts/one.ts'; export const b = [basename(import.meta.filename), import.meta.url.slice(0, 8), one, of.of].join()"))).b,
    async () => (await load("one")).one,
    async () => (await import(write("c.cjs", "const { basename } = require('path'); exports.c = basename(__filename) + (this === exports)"))).c,
    async () => (await import(write("d.js", "exports.d = require('path').sep; module.exports.e = typeof module.require"))).default.e,
    async () => (await import(write("e.js", "#!/usr/bin/env node\nexport class E { #p = 3; get p() { return this.#p } }"))).E.name,
    async () => (await import(write("f.json", '{"f": 4}'), { with: { type: "json" } })).default.f,
    async () => (await import(write("g.mjs", "export default\n("))).default,
    async () => (await import(write("g.mjs", "export default 5"))).default,
    async () => (await import(write("h.ts", "export const h: number = 6"))).h,
    async () => (await import(write("i.mjs", "import './none.mjs'"))).i,
    async () => (await import(write("i2.mjs", "import { a } from './a.mjs'; import c from './c.cjs'; export const i = [a, c.c].join()"))).i,
    async () => (await import(write("j.mjs", "throw new RangeError('its own')"))).j,
    async () => (await import(write("k.mjs", "export const k = await import('./none.mjs')"))).k,
    async () => (await import(write("l.mjs", "//" + "x".repeat(2 ** 20)))).l,
    async () => import(join(here, "gone.mjs")),
"##,
        "by path
true
by query
by path
b.mjs,file:///,1,the bundle
1
c.cjstrue
function
E
4
SyntaxError: unexpected token in expression: '' (HERE/g.mjs:2:2)
5
ERR_UNKNOWN_FILE_EXTENSION: Cannot import 'HERE/h.ts': it was not compiled with the extension, and a module that is found at run time has to be JavaScript. Write it as .mjs, or import it by a literal or a relative template, so that it is compiled at the next start.
ERR_MODULE_NOT_FOUND: Cannot import './none.mjs' from HERE/i.mjs: code that is compiled at run time imports Node's modules, pi's packages and what relative templates of the extension name. Put it into the same file, or have the extension import() it first.
by path,c.cjstrue
RangeError: its own
ERR_MODULE_NOT_FOUND: Cannot find module './none.mjs' imported from file://HERE/k.mjs: it was not compiled with the extension; put the code into one file, or have the extension import it first
RangeError: Cannot import 'HERE/l.mjs': at run time up to 1 MB are compiled per file, and 16 MB in all
ERR_MODULE_NOT_FOUND: Cannot import 'HERE/gone.mjs' from index.ts: a computed import() finds builtins, pi's packages, what a relative template names, and files of JavaScript. Name it literally, as in import(\"./file.js\"), so that it is compiled with the extension.",
    );
}

#[test]
fn written_files_are_not_imported_without_a_grant() {
    check_written(
        &[],
        r#"
    async () => (await import(write("a.mjs", "export const a = 1"))).a,
    async () => (await import(write("b.cjs", "exports.b = 1"))).b,
    async () => (await import(write("c.json", "2"))).default,
    async () => import(join(here, "gone.mjs")),
"#,
        "EACCES: EACCES: permission denied, import 'HERE/a.mjs'
EACCES: EACCES: permission denied, import 'HERE/b.cjs'
2
ERR_MODULE_NOT_FOUND: Cannot import 'HERE/gone.mjs' from index.ts: a computed import() finds builtins, pi's packages, what a relative template names, and files of JavaScript. Name it literally, as in import(\"./file.js\"), so that it is compiled with the extension.",
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
fn artifact_metadata_match_the_schema() {
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
