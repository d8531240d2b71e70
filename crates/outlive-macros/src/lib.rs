//! The attribute macros of `outlive`: functions as tools of an MCP server.
//!
//! Use them as `#[outlive::tools]` and `#[outlive::tool]`; what they write names the crate `outlive`.
//!
//! # Theory
//!
//! A macro here writes down what a program could have written itself, and nothing else: a struct with one field for
//! each parameter, from which `serde` and `schemars` derive how arguments are read and described, and one call of
//! `Builder::tool_with` for each function. The functions stay as they are. All rules about tools (schemas, results,
//! errors) are those of the builder.
//!
//! | file | what it does |
//! |---|---|
//! | `block` | `#[tools]`: an `impl` block, and which of its functions are tools |
//! | `function` | one function: what it takes, and the call of the builder for it |
//! | `options` | `#[tool(name = …)]` |

mod block;
mod function;
mod options;

use proc_macro::TokenStream;
use syn::{ItemFn, ItemImpl, parse_macro_input};

use options::Options;

/// Makes the functions of an `impl` block that are marked with `#[outlive::tool]` the tools of a server.
///
/// The type then implements `outlive::server::Tools`, and its value is given to `Builder::tools`; all its tools share
/// that value.
///
/// | of the function | becomes |
/// |---|---|
/// | its name | the name of the tool |
/// | its doc comment | the description, for the model |
/// | `&self` | the value that was given to `Builder::tools`, shared by calls that run at the same time |
/// | `ctx: &Ctx` or `ctx: Ctx` | the context of the call, in any place |
/// | any other parameter | an argument of the same name; an `Option` may be left out |
/// | doc comments and `#[serde(…)]`, `#[schemars(…)]` of a parameter | those of the argument |
/// | `#[serde(flatten)]` on a parameter | the fields of its type are arguments themselves |
/// | what it returns | the result, as with `Builder::tool`: text, `Json`, `Result`, … |
///
/// `#[outlive::tool(name = "…", title = "…", read_only, idempotent, destructive = false, open_world = false)]` says
/// what a signature cannot. Functions without the attribute are left alone.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, block: TokenStream) -> TokenStream {
    let block = parse_macro_input!(block as ItemImpl);
    block::expand(&options.into(), block).into()
}

/// Makes a function a tool of a server.
///
/// In an `impl` block under `#[outlive::tools]` it marks a function as a tool; that page says what becomes of it.
///
/// On a function of its own it adds a type of the same name, which is given to `Builder::tools`:
///
/// ```ignore
/// /// Greets somebody.
/// #[outlive::tool]
/// async fn greet(name: String) -> String {
///     format!("Hello, {name}!")
/// }
///
/// let server = Server::builder("greeter", "1.0.0").tools(greet {}).build();
/// ```
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let function = parse_macro_input!(function as ItemFn);
    function::expand(options, function).into()
}
