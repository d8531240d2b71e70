//! An `impl` block whose functions are tools.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Error, ImplItem, ItemImpl, Meta, Result};

use crate::function::{Function, take_attributes};
use crate::options::Options;

/// `#[outlive::tools]` on an `impl` block.
pub(crate) fn expand(options: &TokenStream, mut block: ItemImpl) -> TokenStream {
    let mut errors = Errors::default();
    if !options.is_empty() {
        let sentence =
            "`#[outlive::tools]` has no options; those of a tool are in its `#[outlive::tool(…)]`";
        errors.add(Error::new(options.span(), sentence));
    }
    if let Some((name, _)) = &block.trait_ {
        let sentence = "tools are functions of a type itself, not of a trait: `#[outlive::tools] impl Notes { … }`";
        errors.add(Error::new(name.span(), sentence));
    }
    let mut offers = Vec::new();
    let mut marked = false;
    for item in &mut block.items {
        let ImplItem::Fn(function) = item else {
            continue;
        };
        let Some(attribute) = take_mark(&mut function.attrs) else {
            continue;
        };
        marked = true;
        let taken = take_attributes(&mut function.sig);
        let ident = &function.sig.ident;
        let tool = read(&attribute)
            .and_then(|options| Function::of(&function.sig, &function.attrs, taken, options));
        match tool {
            Ok(tool) => offers.push(tool.offer(&quote!(Self::#ident))),
            Err(error) => errors.add(error),
        }
    }
    if !marked {
        let sentence =
            "no function of this block is a tool: write `#[outlive::tool]` above those that are";
        errors.add(Error::new(block.self_ty.span(), sentence));
    }
    let errors = errors.0.map(Error::into_compile_error);
    let (generics, _, bounds) = block.generics.split_for_impl();
    let ty = &block.self_ty;
    quote! {
        #block
        impl #generics ::outlive::server::Tools for #ty #bounds {
            fn add_to(
                self: ::std::sync::Arc<Self>,
                server: ::outlive::server::Builder,
            ) -> ::outlive::server::Builder {
                #(#offers)*
                server
            }
        }
        #errors
    }
}

/// `#[tool]` or `#[outlive::tool]`, if a function has it.
fn take_mark(attributes: &mut Vec<Attribute>) -> Option<Attribute> {
    let is_mark = |it: &Attribute| {
        let path: Vec<_> = it.path().segments.iter().map(|it| &it.ident).collect();
        match &path[..] {
            [tool] => *tool == "tool",
            [of, tool] => *of == "outlive" && *tool == "tool",
            _ => false,
        }
    };
    let place = attributes.iter().position(is_mark)?;
    Some(attributes.remove(place))
}

fn read(attribute: &Attribute) -> Result<Options> {
    match &attribute.meta {
        Meta::Path(_) => Ok(Options::default()),
        _ => attribute.parse_args(),
    }
}

/// All that is wrong: whoever mends one thing wants to know of the others.
#[derive(Default)]
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    /// What the compiler is made to say about a block.
    fn complaints(block: ItemImpl) -> Vec<String> {
        said(expand(&TokenStream::new(), block))
    }

    fn said(expanded: TokenStream) -> Vec<String> {
        let text = expanded.to_string();
        let all = text.split("compile_error ! {").skip(1);
        all.map(|it| it.split('"').nth(1).unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_block_of_tools_is_not_complained_about() {
        let block = parse_quote! {
            impl<T: Send + Sync + 'static> Notes<T> {
                /// Adds a note.
                #[outlive::tool(name = "notes.add", title = "Add", read_only, destructive = false)]
                pub async fn add(&self, ctx: &Ctx, /** What it says. */ text: String) -> &'static str { "" }
                #[tool]
                fn version() -> String { String::new() }
                fn other(&mut self, (a, b): (&str, u8)) {}
            }
        };
        assert_eq!(complaints(block), [""; 0]);
    }

    #[test]
    fn what_cannot_be_a_tool_is_said_so_function_by_function() {
        let block = parse_quote! {
            impl Notes {
                #[outlive::tool]
                async fn a(&mut self) {}
                #[outlive::tool]
                async fn b(self: Arc<Self>) {}
                #[outlive::tool]
                async fn c(&self, text: Option<&str>) {}
                #[outlive::tool]
                async fn d(&self, (a, b): (u8, u8)) {}
                #[outlive::tool]
                async fn e<T>(&self, it: T) {}
                #[outlive::tool]
                async fn f(&self) -> &str { "" }
                #[outlive::tool]
                async fn g(&self, ctx: &mut Ctx) {}
                #[outlive::tool(readonly)]
                async fn h(&self) {}
                #[outlive::tool(name = "with space")]
                async fn i(&self) {}
                #[doc = include_str!("i.md")]
                #[outlive::tool]
                async fn j(&self) {}
            }
        };
        let starts = [
            "calls run at the same time: a tool takes `&self`",
            "calls run at the same time: a tool takes `&self`",
            "an argument of a tool is owned",
            "an argument of a tool has a plain name",
            "a tool has no type or lifetime parameters",
            "the result of a tool is owned",
            "the context is shared: write `&Ctx`",
            "a tool has the options `name`, `title`",
            "the name of a tool is 1 to 128 letters",
            "the description of a tool is a doc comment",
        ];
        let complaints = complaints(block);
        assert_eq!(complaints.len(), starts.len(), "{complaints:#?}");
        for (complaint, start) in complaints.iter().zip(starts) {
            assert!(complaint.starts_with(start), "{complaint}");
        }
    }

    #[test]
    fn a_block_without_tools_or_of_a_trait_is_complained_about() {
        let none = complaints(parse_quote! { impl Notes { fn a(&self) {} } });
        assert!(none[0].starts_with("no function of this block is a tool"));
        let of_trait = complaints(parse_quote! { impl Display for Notes { #[tool] fn a() {} } });
        assert!(of_trait[0].starts_with("tools are functions of a type itself"));
        let block = parse_quote! { impl Notes { #[tool] fn a() {} } };
        let options = said(expand(&quote!(all), block));
        assert!(options[0].starts_with("`#[outlive::tools]` has no options"));
    }

    #[test]
    fn a_method_on_its_own_is_sent_to_its_block() {
        let function = parse_quote! { async fn a(&self) {} };
        let said = said(crate::function::expand(Options::default(), function));
        assert!(said[0].contains("an `impl` block with `#[outlive::tools]` above it"));
    }
}
