//! Parsers of values that several commands take.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pijs_runtime::Isolation;
use pijs_runtime::rules::RuleProgram;

/// Parses the names of [`Isolation`].
pub(crate) fn isolation() -> impl TypedValueParser<Value = Isolation> {
    let described = [
        PossibleValue::new("process").help("A sealed worker process per package; needs Linux"),
        PossibleValue::new("thread").help("Inside pi, under the same limits and the same gate"),
    ];
    PossibleValuesParser::new(described).try_map(|name| name.parse::<Isolation>())
}

/// Parses the names of [`RuleProgram`].
pub(crate) fn peer() -> impl TypedValueParser<Value = RuleProgram> {
    let described = [
        PossibleValue::new("omp").help("oh-my-pi"),
        PossibleValue::new("cursor").help("Cursor"),
        PossibleValue::new("built-in").help("the rules that come with pi"),
    ];
    PossibleValuesParser::new(described)
        .map(|name| name.parse::<RuleProgram>().expect("the parser accepts only these values"))
}
