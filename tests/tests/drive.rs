//! `pi ext drive` over scenarios of our own: `fixtures/drive/NAME.json` with its extension beside it, and what the
//! real pi did (`NAME.expected.json`, captured once). Each is played in a sealed process and in the host's thread.

use pijs_conformance::compare::{Options, compare};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/drive").canonicalize().expect("fixtures/drive")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn drive(name: &str, isolation: &str) -> Value {
    let folder = folder();
    let output = Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
        .args(["ext", "drive", "--isolation", isolation, "--examples"])
        .arg(&folder)
        .arg(folder.join(format!("{name}.json")))
        .env("PIJS_WORDS", "own")
        // Of whoever plays a scenario, nothing that it runs sees anything.
        .env("PLAYER_KEY", "sk-of-the-player")
        .output()
        .expect("pi starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{name}: {error}\n{stderr}"))
}

#[track_caller]
fn as_in_pi(name: &str) {
    let expected = read(&folder().join(format!("{name}.expected.json")));
    let isolations: &[&str] = if cfg!(target_os = "linux") { &["process", "thread"] } else { &["thread"] };
    for isolation in isolations {
        let differences = compare(&expected, &drive(name, isolation), &Options::default());
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert!(shown.is_empty(), "{name} in a {isolation}:\n{}", shown.join("\n"));
    }
}

#[test]
fn what_is_told_at_once_keeps_the_order_of_the_calls() {
    as_in_pi("order");
}

#[test]
fn handlers_of_what_a_call_changes_begin_inside_the_call() {
    as_in_pi("begun-in-call");
}

#[test]
fn a_message_that_asks_for_a_turn_begins_it_at_once() {
    as_in_pi("turns-asked-for");
}

#[test]
fn what_cannot_be_called_is_named_where_a_variable_is_passed() {
    as_in_pi("passed-variables");
}

#[test]
fn commands_of_a_scenario_do_not_see_the_environment_of_its_player() {
    as_in_pi("player-environment");
}

#[test]
fn components_are_drawn_in_the_realm_and_get_their_keys() {
    as_in_pi("components");
}

#[test]
fn without_anybody_there_everything_gives_its_fall_back() {
    as_in_pi("nobody");
}

#[test]
fn what_the_model_is_told_of_prompt_and_tools_is_part_of_the_conversation() {
    as_in_pi("transcript");
    as_in_pi("triggered");
}

#[test]
fn built_in_tools_answer_odd_inputs_as_pis_do() {
    for tool in ["read", "edit", "write", "bash", "ls"] {
        as_in_pi(&format!("builtin-{tool}"));
    }
}

#[test]
fn what_goes_wrong_is_an_item_and_ends_nothing() {
    as_in_pi("failures");
}

#[test]
fn a_file_of_a_project_lies_where_it_lies() {
    as_in_pi("own-place");
}

#[test]
fn a_scenario_that_cannot_be_read_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
        .args(["ext", "drive", "no/such/scenario.json"])
        .output()
        .expect("pi starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no/such/scenario.json"), "{stderr}");
}

#[test]
fn what_an_extension_says_in_the_persons_place_is_one_text_and_its_pictures() {
    as_in_pi("said");
}

#[test]
fn a_day_of_the_week_stands_beside_its_hour() {
    as_in_pi("weekday-hours");
}

#[test]
fn who_lacks_a_key_is_told_and_who_waited_for_any_of_several() {
    as_in_pi("keyless-header");
}

#[test]
fn errors_of_the_language_quote_the_source() {
    as_in_pi("not-functions");
    as_in_pi("caught");
}

#[test]
fn functions_have_their_text() {
    as_in_pi("function-texts");
}

#[test]
fn models_are_listed_in_pis_order() {
    as_in_pi("model-order");
}

#[test]
fn default_exports_are_looked_for_where_pi_looks() {
    as_in_pi("defaults");
}

#[test]
fn nodes_modules_answer_at_their_edges_as_there() {
    as_in_pi("node-details");
}

#[test]
fn providers_look_up_their_models() {
    as_in_pi("model-lists");
}

#[test]
fn a_server_of_ones_own_is_reached_by_every_way() {
    as_in_pi("own-server");
}

#[test]
fn variables_that_steer_nothing_reach_programs() {
    as_in_pi("idle-environment");
}

#[test]
fn how_full_the_context_is_is_known_from_the_first_event_on() {
    as_in_pi("context-size");
}

#[test]
fn tools_that_come_and_are_chosen_are_there_at_once_and_count_from_the_next_turn() {
    let moments = ["a-command", "a-call", "a-tool", "taken-away", "tool-result", "message-end", "turn-end"];
    for moment in moments {
        as_in_pi(&format!("tools-chosen-{moment}"));
    }
}

#[test]
fn tools_that_are_chosen_before_a_request_may_be_called_in_answer_to_it() {
    for moment in ["input", "before-agent-start", "agent-start", "turn-start", "context"] {
        as_in_pi(&format!("tools-chosen-{moment}"));
    }
}

#[test]
fn flags_have_their_defaults_and_then_what_the_command_line_says() {
    as_in_pi("flags");
}

#[test]
fn ways_through_the_tree_of_a_session_lead_where_pis_do() {
    as_in_pi("tree");
}

#[test]
fn arguments_are_converted_where_typebox_made_the_schema_and_results_have_to_be_some() {
    as_in_pi("converts");
}

#[test]
fn providers_of_an_extension_are_looked_at_keyed_and_heard_as_pis_are() {
    as_in_pi("own-models");
}

#[test]
fn what_handlers_change_and_answer_counts_as_in_pi_and_what_is_given_up_has_ended() {
    as_in_pi("answers");
}

#[test]
fn requests_to_models_and_what_comes_back_are_seen_as_in_pi() {
    as_in_pi("wire");
    as_in_pi("wire-faults");
}

#[test]
fn providers_made_by_pi_ai_find_their_keys_and_stream_functions_hand_requests_on() {
    as_in_pi("native");
}

#[test]
fn of_a_tool_that_returned_nothing_no_handler_hears() {
    as_in_pi("nothing");
}

#[test]
fn modules_stay_for_the_next_session_and_begin_anew_with_a_reload() {
    as_in_pi("modules-kept");
}

#[test]
fn a_session_begins_with_all_tools_of_extensions_whatever_its_transcript_says() {
    as_in_pi("tools-again");
}

#[test]
fn a_summary_is_asked_for_of_the_conversation_as_it_was() {
    as_in_pi("quoted");
}

#[test]
fn events_have_the_members_that_pis_have() {
    as_in_pi("members");
}

#[test]
fn texts_that_were_cut_within_a_character_are_taken_everywhere() {
    for mode in ["rpc", "tui"] {
        as_in_pi(&format!("cut-characters-{mode}"));
    }
}

#[test]
fn handlers_see_content_as_the_tool_gave_it_and_may_make_a_list_of_it() {
    as_in_pi("mended");
}

#[test]
fn a_component_and_what_it_asks_and_begins_take_turns_as_in_pi() {
    as_in_pi("component-asks");
}

#[test]
fn keys_of_two_parts_sign_encrypt_and_are_written_down_as_nodes_are() {
    as_in_pi("keys");
    as_in_pi("keys-refused");
    as_in_pi("keys-web");
}

#[test]
fn options_that_are_no_texts_come_back_as_they_were_given() {
    as_in_pi("options");
}

#[test]
fn constructors_of_http_are_called_as_functions_and_connections_are_kept() {
    as_in_pi("http-called");
}

#[test]
fn what_the_engine_says_of_built_ins_is_what_v8_says() {
    as_in_pi("words");
}

#[test]
fn histograms_are_nodes() {
    as_in_pi("histograms");
}

#[test]
fn what_assert_says_of_values_that_differ_shows_where() {
    as_in_pi("differences");
}

#[test]
fn a_tool_that_a_command_registers_is_active_at_once() {
    as_in_pi("tool-of-command");
}

#[test]
fn node_answers_where_few_look() {
    as_in_pi("node-corners");
}

#[test]
fn keys_of_shortcuts_are_compared_as_they_are_written() {
    as_in_pi("shortcut-keys");
}

#[test]
fn a_theme_that_a_scenario_changes_is_written_down() {
    as_in_pi("theme-recorded");
}

#[test]
fn a_session_goes_on_from_its_own_file() {
    as_in_pi("own-session");
}

#[test]
fn prompts_that_come_too_late_are_heard_and_refused() {
    as_in_pi("late-prompts");
    as_in_pi("late-prompts-unheard");
}

#[test]
fn answers_of_a_turns_end_that_are_no_drafts_are_taken_as_pi_takes_them() {
    as_in_pi("boundary-answers");
}

#[test]
fn what_handlers_change_on_the_way_counts_where_it_does_in_pi() {
    as_in_pi("request-changes");
}

#[test]
fn summaries_wait_for_the_end_of_a_run_and_may_be_called_off() {
    as_in_pi("called-off");
}

#[test]
fn each_handler_sees_the_prompt_that_those_before_it_left() {
    as_in_pi("prompt-chained");
}

#[test]
fn members_stand_in_pis_order_and_nothing_stays_nothing() {
    as_in_pi("member-order");
    as_in_pi("absent-members");
}

#[test]
fn a_stack_belongs_to_its_error_and_is_written_when_it_is_read() {
    as_in_pi("stacks");
}

#[test]
fn programs_that_fail_and_things_that_are_aborted_say_what_nodes_say() {
    as_in_pi("program-errors");
}

#[test]
fn requests_without_a_body_and_answers_that_break_off_are_nodes() {
    as_in_pi("bare-requests");
}

#[test]
fn what_is_no_argument_is_refused_in_nodes_words() {
    as_in_pi("web-arguments");
    as_in_pi("node-arguments");
}

#[test]
fn dates_show_the_half_that_their_method_is_named_after() {
    as_in_pi("half-dates");
}

#[test]
fn locales_have_names_and_numbers_their_forms() {
    as_in_pi("locales");
}

#[test]
fn programs_that_leave_others_behind_end_when_they_do() {
    as_in_pi("children");
}

#[test]
fn what_is_no_argument_of_pis_is_taken_or_refused_as_pi_does() {
    as_in_pi("pi-arguments");
}

#[test]
fn what_node_shows_of_values_is_shown() {
    as_in_pi("node-shown");
}

#[test]
fn a_watched_file_that_is_written_has_changed_and_stays_watched() {
    as_in_pi("watched");
}
