//! The order in which extensions hear of what happens at the same time: `fixtures/ordered/NAME.json` with its extensions
//! beside it, and what the real pi 0.87.1 did (`NAME.expected.json`, captured once). Each is played in a sealed process and in
//! the host's thread.

mod played;

use played::Played;

const ORDERED: Played =
    Played { folder: "ordered", suffix: "expected", captured: "0.87.1", needs_packages: false, options: &[] };

#[track_caller]
fn as_in_pi(name: &str) {
    ORDERED.as_in_pi(name);
}

#[test]
fn calls_of_one_reply_take_turns() {
    as_in_pi("calls");
}

#[test]
fn what_is_steered_goes_with_the_next_request_also_past_handlers_of_input() {
    as_in_pi("steered");
}

#[test]
fn after_an_abort_the_next_turn_begins_and_asks_nobody() {
    as_in_pi("aborted");
}

#[test]
fn what_a_tool_does_by_the_way_comes_before_what_follows_it() {
    as_in_pi("by-the-way");
}

#[test]
fn what_handlers_tools_and_commands_throw_is_told_where_pi_tells_it() {
    as_in_pi("throws");
}

#[test]
fn each_handler_of_a_boundary_sees_the_conversation_with_what_was_drafted() {
    as_in_pi("boundaries");
}

#[test]
fn messages_of_a_beginning_go_with_its_first_request_and_commands_wait_for_turns() {
    as_in_pi("waiting");
}

#[test]
fn replies_of_an_extension_s_provider_come_in_any_form() {
    as_in_pi("provider");
}
