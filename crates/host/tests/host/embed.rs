//! Checks that the embedding example works and fits on a page.

#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "an example's `main`; the test calls what it calls")]
mod example;

#[test]
fn the_example_stops_the_reply_on_the_delta_that_completes_the_match() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for a test");
    let mut said = Vec::new();
    runtime
        .block_on(example::judge(&["fine, ", "`console.lo", "g(1)`"], |line| said.push(line)))
        .expect("the example runs");
    assert_eq!(said.len(), 3);
    assert!(said[0].ends_with("may be shown") && said[1].ends_with("may be shown"), "{said:?}");
    assert!(said[2].starts_with("\"g(1)`\" is stopped:") && said[2].contains("never console.log"), "{said:?}");
}

#[test]
fn the_example_fits_on_a_page() {
    let lines = include_str!("../../examples/embed.rs").lines().count();
    assert!(lines < 80, "{lines} lines");
}
