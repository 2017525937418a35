//! Tests running and installing the output of `extc build -o out`, as a folder and as a file.

mod support;

use pijs_extc::{BuildOptions, Input, build};
use support::World;

/// Returns an entry whose command writes the command's name and the value of an export that this version lacks.
fn entry(name: &str) -> String {
    format!(
        "import {{ writeFileSync, noSuchCall }} from 'node:fs';\nimport {{ value }} from './shared';\n\
         export default (pi: any) => pi.registerCommand('{name}', {{\n  \
         handler: async (_: string, ctx: any) => writeFileSync(ctx.cwd + '/{name}.txt', value + typeof noSuchCall) }});\n"
    )
}

/// Builds a package with two entries, and removes its sources.
fn out(world: &World, shared: &str) {
    world.write("ext/package.json", r#"{"name":"two","version":"1.2.3","pi":{"extensions":["one.ts","two.ts"]}}"#);
    world.write("ext/one.ts", entry("one"));
    world.write("ext/two.ts", entry("two"));
    world.write("ext/shared.ts", shared);
    let built = build(&Input::at(world.path().join("ext")), &BuildOptions::default()).expect("it builds");
    world.write("project/out/extension.artifact", built.encoded().unwrap());
    std::fs::remove_dir_all(world.path().join("ext")).expect("removed");
}

/// Runs both commands, checks their output, and removes it.
fn uses_both(world: &World, flags: &[&str]) {
    let model = world.script(&[&["hi"]]);
    for name in ["one", "two"] {
        let command = format!("/{name}");
        world.pi(&[&["-p", command.as_str(), "--model", &model], flags].concat()).succeeded();
        let file = format!("project/{name}.txt");
        assert_eq!(world.read(&file), "sharedundefined");
        std::fs::remove_file(world.path().join(file)).expect("removed");
    }
}

const SHARED: &str = "export const value: string = 'shared';\n";

#[test]
fn artifacts_load_from_a_folder_or_a_file() {
    let world = World::new();
    out(&world, SHARED);
    uses_both(&world, &["--allow", "write", "-e", "out"]);
    uses_both(&world, &["--allow", "write", "-e", "out/extension.artifact"]);
}

#[test]
fn a_folder_is_installed_and_bound_to_its_bytes() {
    let world = World::new();
    out(&world, SHARED);
    world.pi(&["install", "--yes", "./out"]).succeeded();
    uses_both(&world, &[]);
    let shown = world.pi(&["ext", "show", "./out"]);
    assert!(shown.succeeded().stdout.contains("two 1.2.3"), "{}", shown.stdout);
    out(&world, "export const value: string = 'other';\n");
    let model = world.script(&[&["hi"]]);
    let run = world.pi(&["-p", "/one", "--model", &model]);
    assert!(run.stderr.contains("code has changed since you answered"), "{}", run.stderr);
    assert!(!world.project().join("one.txt").exists());
    world.pi(&["install", "--yes", "./out/extension.artifact"]).succeeded();
}

#[test]
fn errors_are_shown_at_the_authors_position() {
    let world = World::new();
    world.write("ext/broken.ts", "type Nothing = never;\nexport default () => {\n  throw new Error('broken');\n};\n");
    let built = build(&Input::at(world.path().join("ext/broken.ts")), &BuildOptions::default()).expect("it builds");
    world.write("project/out/extension.artifact", built.encoded().unwrap());
    let model = world.script(&[&["hi"]]);
    world.pi(&["-p", "x", "--model", &model, "-e", "out"]).failed(1, &["Failed to load extension", "broken.ts:3:"]);
    world.write("project/out/extension.artifact", "PIJSXART");
    world
        .pi(&["-p", "x", "--model", &model, "-e", "out"])
        .failed(1, &["BD_ARTIFACT", "extension.artifact", "extc build"]);
}
