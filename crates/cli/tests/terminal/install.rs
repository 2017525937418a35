//! Tests the prompt for grants of `pi install` at a terminal.

use crate::pty::Terminal;
use crate::support::World;

const RUNS: &str = r#"
import { execFileSync } from "node:child_process";
export default (pi: any) => {
  pi.registerCommand("run", { handler: async () => { execFileSync("true", []); } });
};
"#;

/// Installs the extension, answers the prompt, and returns the exit code and the output.
fn install(world: &World, key: &str) -> (i32, String) {
    let mut terminal = Terminal::start(world.command(&["install", "./mine"]));
    terminal.sees("grant this?");
    // Keys typed before the prompt is on screen are ignored, so the test repeats the answer.
    terminal.insists(key, "works");
    terminal.ends()
}

#[test]
fn an_install_after_a_revocation_prompts_again() {
    let world = World::new();
    world.write("project/mine/package.json", r#"{"name":"mine","version":"1.0.0","pi":{"extensions":["./a.ts"]}}"#);
    world.write("project/mine/a.ts", RUNS);
    let granted = || world.pi(&["ext", "grants", "mine"]).succeeded().stdout.contains("may run programs: true");

    assert_eq!(install(&world, "y\n").0, 0);
    assert!(granted(), "the prompt was answered with yes");
    world.pi(&["ext", "grants", "revoke", "mine", "exec"]).succeeded();
    let (code, shown) = install(&world, "n\n");
    assert_eq!(code, 0);
    assert!(shown.contains("requests more than it was granted") && shown.contains("+ run programs: true"), "{shown}");
    // A declined request is part of the next prompt as well.
    assert_eq!(install(&world, "y\n").0, 0);
    assert!(granted(), "the prompt was answered with yes");

    // There is no prompt if everything is granted or was answered *never*.
    for deny in [false, true] {
        if deny {
            world.pi(&["ext", "grants", "deny", "mine", "exec"]).succeeded();
        }
        let (code, shown) = Terminal::start(world.command(&["install", "./mine"])).ends();
        assert_eq!(code, 0);
        assert!(!shown.contains("grant this?"), "{shown}");
    }
}
