//! The table of all texts that users may read: errors, notices, questions, help.
//!
//! A text is a string literal of three words or more in the sources of a crate, outside of its tests. Literals of `expect`,
//! `panic!` and assertions state internal invariants and are left out, as are SQL statements. Options and commands of `clap` add
//! their doc comments, which `--help` prints.
//!
//! The test of this package compares [`table`] with a snapshot, so that every changed text is visible in one place.

use crate::sources::{is_test, sources};
use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// Crates whose texts only developers of this workspace read.
const NOT_FOR_USERS: &[&str] = &["crates/conformance", "crates/testkit", "tests", "xtask", "fuzz"];

/// Assertion macros and methods: their text reaches a user only through a defect.
const BELIEFS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "expect",
    "expect_err",
    "guard",
    "include_bytes",
    "include_str",
    "panic",
    "unimplemented",
    "unreachable",
];

/// First words of SQL statements.
const SQL: &[&str] = &[
    "ALTER", "ATTACH", "BEGIN", "COMMIT", "CREATE", "DELETE", "DROP", "INSERT", "PRAGMA", "ROLLBACK", "SELECT",
    "UPDATE", "VACUUM", "WITH",
];

/// Attributes whose strings are displayed to users.
const SHOWN_ATTRIBUTES: &[&str] = &["arg", "command", "error", "value"];

/// Derive macros of `clap`, which prints the doc comments of their items.
const CLAP_DERIVES: &[&str] = &["Args", "Parser", "Subcommand", "ValueEnum"];

/// One text, with the function, constant or type that contains it.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    pub owner: String,
    pub text: String,
}

/// Returns the table as a page: one heading for each file, sorted by path, followed by its texts in source order.
///
/// # Errors
///
/// Fails if a source cannot be read or parsed.
pub fn table() -> Result<String> {
    let root = crate::root();
    let mut files = sources(&root)?;
    files.sort();
    let mut page = String::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        if !is_for_users(&name) {
            continue;
        }
        let source = fs::read_to_string(&file).with_context(|| format!("reading {name}"))?;
        let messages = messages(&source).with_context(|| format!("parsing {name}"))?;
        if messages.is_empty() {
            continue;
        }
        let _ = writeln!(page, "\n## {name}");
        for Message { owner, text } in messages {
            let _ = writeln!(
                page,
                "{owner}: {}",
                text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
            );
        }
    }
    Ok(page)
}

/// Returns whether a file's texts may reach a user: sources of crates, without test modules, examples and benches.
fn is_for_users(name: &str) -> bool {
    let under = |folder: &&str| name.starts_with(*folder) && name[folder.len()..].starts_with('/');
    if NOT_FOR_USERS.iter().any(under) {
        return false;
    }
    let path = Path::new(name);
    path.components().any(|part| part.as_os_str() == "src")
        && !path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// Returns the texts of a source file in source order.
///
/// # Errors
///
/// Fails if the source does not parse as Rust.
pub fn messages(source: &str) -> syn::Result<Vec<Message>> {
    let mut collector = Collector::default();
    collector.visit_file(&syn::parse_file(source)?);
    Ok(collector.found)
}

/// Returns whether a literal has three words or more and is not an SQL statement.
fn is_message(text: &str) -> bool {
    let is_word = |part: &&str| part.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    let first = text.split_whitespace().next().unwrap_or_default();
    text.split_whitespace().filter(is_word).count() >= 3 && !SQL.contains(&first)
}

#[derive(Default)]
struct Collector {
    /// Names of the items that enclose the visited place, outermost first.
    owners: Vec<String>,
    /// Whether `clap` prints the doc comments of the visited type.
    prints_docs: bool,
    found: Vec<Message>,
}

impl Collector {
    fn within(&mut self, name: &syn::Ident, visit: impl FnOnce(&mut Self)) {
        self.owners.push(name.to_string());
        visit(self);
        self.owners.pop();
    }

    fn take(&mut self, text: &str) {
        if is_message(text) {
            let owner = self.owners.last().cloned().unwrap_or_default();
            self.found.push(Message { owner, text: text.to_owned() });
        }
    }

    /// Collects the literals of a macro's tokens, without those of nested assertion macros.
    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut is_belief = false;
        for tree in tokens {
            match tree {
                TokenTree::Group(group) => {
                    if !is_belief {
                        self.take_tokens(group.stream());
                    }
                    is_belief = false;
                }
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.take(&text.value());
                    }
                }
                TokenTree::Ident(ident) => is_belief = BELIEFS.contains(&ident.to_string().as_str()),
                // `!` separates a macro's name from its arguments.
                TokenTree::Punct(punct) => is_belief = is_belief && punct.as_char() == '!',
            }
        }
    }

    fn visit_type(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], visit: impl FnOnce(&mut Self)) {
        let before = self.prints_docs;
        self.prints_docs = attributes.iter().any(is_clap_derive);
        self.within(name, visit);
        self.prints_docs = before;
    }
}

fn is_clap_derive(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("derive")
        && attribute.meta.require_list().is_ok_and(|list| {
            list.tokens.clone().into_iter().any(|tree| CLAP_DERIVES.contains(&tree.to_string().as_str()))
        })
}

/// Joins the lines of a doc comment.
fn doc(attributes: &[syn::Attribute]) -> String {
    let lines =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| match &attribute
            .meta
            .require_name_value()
            .ok()?
            .value
        {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        });
    lines.collect::<Vec<_>>().join(" ")
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.within(&item.sig.ident, |collector| visit::visit_item_fn(collector, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.within(&item.sig.ident, |collector| visit::visit_impl_item_fn(collector, item));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.within(&item.sig.ident, |collector| visit::visit_trait_item_fn(collector, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(&item.ident, |collector| visit::visit_item_const(collector, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(&item.ident, |collector| visit::visit_item_static(collector, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.visit_type(&item.ident, &item.attrs, |collector| visit::visit_item_struct(collector, item));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.visit_type(&item.ident, &item.attrs, |collector| visit::visit_item_enum(collector, item));
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if self.prints_docs {
            self.take(&doc(&field.attrs));
        }
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if self.prints_docs {
            self.take(&doc(&variant.attrs));
        }
        visit::visit_variant(self, variant);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta
            && SHOWN_ATTRIBUTES.iter().any(|name| list.path.is_ident(name))
        {
            self.take_tokens(list.tokens.clone());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if BELIEFS.contains(&call.method.to_string().as_str()) {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let name = item.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if !BELIEFS.contains(&name.as_str()) {
            self.take_tokens(item.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.take(&literal.value());
    }
}
