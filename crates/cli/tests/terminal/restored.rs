//! Tests that a session restores the terminal, however it ends (Q40).

use super::pty::Terminal;
use super::{NOTHING, open};
use crate::support::World;
use rustix::process::Signal;

/// Checks that the shell gets its terminal settings back.
fn is_as_it_was(mut terminal: Terminal, before: &str, case: &str) {
    let (_, bytes) = terminal.ended();
    assert_eq!(terminal.line_modes(), before, "{case}: raw mode is over");
    assert_eq!(terminal.screen_modes(), [false; 3], "{case}: other screen, hidden cursor, marked pastes");
    let count = |sequence: &str| bytes.matches(sequence).count();
    assert_eq!(count("\u{1b}[>7u"), count("\u{1b}[<u"), "{case}: keys are told as before");
    assert!(bytes.rfind("\u{1b}[?7h") > bytes.rfind("\u{1b}[?7l"), "{case}: lines wrap");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for signals in [vec![Signal::TERM], vec![Signal::HUP], vec![Signal::INT], vec![Signal::INT, Signal::INT]] {
        let world = World::new();
        let before = Terminal::fresh_line_modes();
        let terminal = open(&world, NOTHING, &[&["never"]], &[]);
        assert_ne!(terminal.line_modes(), before, "raw mode is on");
        assert!(terminal.screen_modes()[0], "the other screen is on");
        signals.iter().for_each(|signal| terminal.tell(*signal));
        is_as_it_was(terminal, &before, &format!("{signals:?}"));
    }
}

#[test]
fn a_killed_worker_takes_nothing_of_the_terminal_with_it() {
    let world = World::new();
    let before = Terminal::fresh_line_modes();
    let mut terminal = open(&world, NOTHING, &[&["still here"]], &[]);
    for worker in terminal.workers() {
        rustix::process::kill_process(worker, Signal::KILL).expect("it runs");
    }
    terminal.sees("was restarted");
    terminal.answers("anybody?", "still here");
    terminal.say("/quit");
    is_as_it_was(terminal, &before, "a killed worker");
}
