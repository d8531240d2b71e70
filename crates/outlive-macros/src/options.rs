//! What is said about a tool beside its signature.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::{LitBool, LitStr, Result, Token};

/// The options of `#[outlive::tool(…)]`.
#[derive(Default)]
pub(crate) struct Options {
    name: Option<LitStr>,
    title: Option<LitStr>,
    /// Hints about effects: the field of the annotations, and what it is set to.
    hints: Vec<(TokenStream, bool)>,
}

impl Options {
    pub(crate) fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(ident) = meta.path.get_ident() else {
            return Err(unknown(meta));
        };
        match ident.to_string().as_str() {
            "name" => self.name = Some(named(meta.value()?.parse()?)?),
            "title" => self.title = Some(meta.value()?.parse()?),
            "read_only" => self.hint(meta, quote!(read_only_hint))?,
            "idempotent" => self.hint(meta, quote!(idempotent_hint))?,
            "destructive" => self.hint(meta, quote!(destructive_hint))?,
            "open_world" => self.hint(meta, quote!(open_world_hint))?,
            _ => return Err(unknown(meta)),
        }
        Ok(())
    }

    /// `read_only`, or `read_only = true`.
    fn hint(&mut self, meta: &ParseNestedMeta<'_>, field: TokenStream) -> Result<()> {
        let value = match meta.input.peek(Token![=]) {
            true => meta.value()?.parse::<LitBool>()?.value,
            false => true,
        };
        self.hints.push((field, value));
        Ok(())
    }

    /// The tool as it is listed, but for the schemas, which come from its types.
    pub(crate) fn definition(&self, function: &str, description: Option<&str>) -> TokenStream {
        let name = match &self.name {
            Some(name) => quote!(#name),
            None => quote!(#function),
        };
        let title = self.title.iter();
        let description = description.iter();
        let fields = self.hints.iter().map(|(field, _)| field);
        let values = self.hints.iter().map(|(_, value)| value);
        quote! {{
            #[allow(unused_mut)]
            let mut tool = ::outlive::model::Tool::new(#name);
            #(tool.title = ::core::option::Option::Some(#title.into());)*
            #(tool.description = ::core::option::Option::Some(#description.into());)*
            #(tool.annotations.get_or_insert_default().#fields = ::core::option::Option::Some(#values);)*
            tool
        }}
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        let reader = syn::meta::parser(|meta| options.read(&meta));
        let tokens: TokenStream = input.parse()?;
        syn::parse::Parser::parse2(reader, tokens)?;
        Ok(options)
    }
}

fn unknown(meta: &ParseNestedMeta<'_>) -> syn::Error {
    meta.error(
        "a tool has the options `name`, `title`, `read_only`, `idempotent`, `destructive` and `open_world`; its \
         description is its doc comment",
    )
}

/// A name as 2025-11-25 wants them.
fn named(name: LitStr) -> Result<LitStr> {
    let text = name.value();
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.');
    match (1..=128).contains(&text.len()) && text.chars().all(plain) {
        true => Ok(name),
        false => Err(syn::Error::new(
            name.span(),
            "the name of a tool is 1 to 128 letters, digits, `_`, `-` and `.`",
        )),
    }
}
