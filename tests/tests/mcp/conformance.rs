//! The client scenarios of the protocol's own suite, `@modelcontextprotocol/conformance`.
//!
//! `fixtures/mcp/conformance` pins the packages by version and sha512, and contains the client that runs pi, and the baseline.
//! The suite needs Node 22. Without it, or if the registry cannot be reached, the test prints a notice and checks nothing.

use crate::World;
use crate::real::{node, packages, say};
use std::process::Command;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/mcp/conformance");
const OLDEST_NODE: u32 = 22;

fn version(node: &std::path::Path) -> Option<u32> {
    let output = Command::new(node).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim_start_matches('v').split('.').next()?.parse().ok()
}

#[test]
fn client_scenarios_match_the_baseline() {
    let Some(node) = node().filter(|node| version(node) >= Some(OLDEST_NODE)) else {
        return say("there is no Node 22");
    };
    let Some(packages) = packages("conformance") else { return };
    let baseline = std::fs::read_to_string(format!("{FIXTURE}/baseline.txt")).expect("a baseline");
    let suite = packages.path().join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let client = format!("{} {FIXTURE}/client.mjs", node.display());
    let mut surprises = Vec::new();
    for line in baseline.lines().filter(|line| !line.starts_with('#')) {
        let (scenario, wanted) = line.split_once(' ').expect("a scenario and its end");
        let world = World::new();
        let output = Command::new(&node)
            .arg(&suite)
            .args(["client", "--command", &client, "--scenario", scenario])
            .env("PI", env!("CARGO_BIN_EXE_pi-attacked"))
            .env("PI_WORLD", world.at("project"))
            .current_dir(world.at("project"))
            .output()
            .expect("Node runs");
        let passes = output.status.success();
        if passes != (wanted == "passes") {
            let said = String::from_utf8_lossy(&output.stdout);
            let why: Vec<&str> =
                said.lines().filter(|line| line.contains("FAILURE") || line.contains("WARNING")).collect();
            surprises.push(format!("{scenario}: {}\n{}", if passes { "passes now" } else { "fails" }, why.join("\n")));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}
