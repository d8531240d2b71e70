//! One function that is a tool.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, ItemFn, Lit, Meta, Pat, PatType,
    PathArguments, ReceiverKind, Result, ReturnType, Signature, Type,
};

use crate::options::Options;

/// Attributes of a parameter that are those of the argument.
const OF_ARGUMENTS: [&str; 3] = ["doc", "serde", "schemars"];

/// `#[outlive::tool]` on a function of its own.
pub(crate) fn expand(options: Options, mut item: ItemFn) -> TokenStream {
    let taken = take_attributes(&mut item.sig);
    let ident = &item.sig.ident;
    let tool = match item.sig.receiver() {
        Some(receiver) => Err(Error::new(
            receiver.span(),
            "a tool with `self` belongs into an `impl` block with `#[outlive::tools]` above it",
        )),
        None => Function::of(&item.sig, &item.attrs, taken, options),
    };
    let (offer, error) = match tool {
        Ok(tool) => (tool.offer(&quote!(#ident)), None),
        Err(error) => (TokenStream::new(), Some(error.into_compile_error())),
    };
    let vis = &item.vis;
    let cfgs = conditions(&item.attrs);
    let about = format!("The tool [`{ident}`]({ident}()), for `Builder::tools`.");
    quote! {
        #item
        #(#cfgs)*
        #[doc = #about]
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #vis struct #ident {}
        #(#cfgs)*
        impl ::outlive::server::Tools for #ident {
            fn add_to(
                self: ::std::sync::Arc<Self>,
                server: ::outlive::server::Builder,
            ) -> ::outlive::server::Builder {
                #offer
                server
            }
        }
        #error
    }
}

/// The attributes of parameters that the compiler would not have there, parameter by parameter.
pub(crate) fn take_attributes(signature: &mut Signature) -> Vec<Vec<Attribute>> {
    let of_argument = |it: &Attribute| OF_ARGUMENTS.iter().any(|name| it.path().is_ident(name));
    let typed = signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(input) => Some(input),
        FnArg::Receiver(_) => None,
    });
    typed
        .map(|input| input.attrs.extract_if(.., |it| of_argument(it)).collect())
        .collect()
}

/// The `#[cfg]`s of an item.
fn conditions(attributes: &[Attribute]) -> Vec<Attribute> {
    let conditions = attributes.iter().filter(|it| it.path().is_ident("cfg"));
    conditions.cloned().collect()
}

/// A function that is to be a tool.
pub(crate) struct Function {
    ident: Ident,
    options: Options,
    description: Option<String>,
    cfgs: Vec<Attribute>,
    is_async: bool,
    has_self: bool,
    inputs: Vec<Input>,
    /// Where a complaint about the result belongs.
    result: Span,
}

/// What a function is given.
enum Input {
    /// The context of the call.
    Ctx { borrowed: bool },
    /// An argument of the call.
    Argument(Box<Argument>),
}

struct Argument {
    attributes: Vec<Attribute>,
    ident: Ident,
    ty: Type,
}

impl Function {
    /// The function of this signature; `taken` are the attributes of its parameters.
    pub(crate) fn of(
        signature: &Signature,
        attributes: &[Attribute],
        taken: Vec<Vec<Attribute>>,
        options: Options,
    ) -> Result<Function> {
        if !signature.generics.params.is_empty() {
            let sentence = "a tool has no type or lifetime parameters: its arguments are read from JSON as they are";
            return Err(Error::new(signature.generics.span(), sentence));
        }
        let (mut has_self, mut inputs) = (false, Vec::new());
        let mut taken = taken.into_iter();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => match receiver.kind {
                    ReceiverKind::Reference(_, _, None) => has_self = true,
                    _ => {
                        let sentence = "calls run at the same time: a tool takes `&self`, and what it changes is \
                                        behind a lock or atomic";
                        return Err(Error::new(receiver.span(), sentence));
                    }
                },
                FnArg::Typed(input) => {
                    inputs.push(Input::of(input, taken.next().unwrap_or_default())?)
                }
            }
        }
        let result = match &signature.output {
            ReturnType::Default => signature.ident.span(),
            ReturnType::Type(_, ty) => owned_result(ty)?,
        };
        Ok(Function {
            ident: signature.ident.clone(),
            options,
            description: description(attributes)?,
            cfgs: conditions(attributes),
            is_async: signature.asyncness.is_some(),
            has_self,
            inputs,
            result,
        })
    }

    /// The statement that offers it: `server` is given this tool, too. `callee` is the function to be called.
    pub(crate) fn offer(&self, callee: &TokenStream) -> TokenStream {
        let arguments = self.arguments();
        let (fields, ty) = match &arguments[..] {
            [] => (None, quote!(())),
            [one] if one.is_flat() => {
                let ty = &one.ty;
                (None, quote!(#ty))
            }
            all => (Some(structure(all)), quote!(Arguments)),
        };
        let in_struct = fields.is_some();
        let passed = self.inputs.iter().map(|input| match input {
            Input::Ctx { borrowed: true } => quote!(&ctx),
            Input::Ctx { borrowed: false } => quote!(::core::clone::Clone::clone(&ctx)),
            Input::Argument(argument) if in_struct => {
                let ident = &argument.ident;
                quote!(arguments.#ident)
            }
            Input::Argument(_) => quote!(arguments),
        });
        let this = self.has_self.then(|| quote!(&this,));
        let share = self
            .has_self
            .then(|| quote!(let this = ::std::sync::Arc::clone(&this);));
        let keep = self
            .has_self
            .then(|| quote!(let this = ::std::sync::Arc::clone(&self);));
        let wait = self.is_async.then(|| quote!(.await));
        let has_ctx = self.inputs.iter().any(|it| matches!(it, Input::Ctx { .. }));
        let ctx = if has_ctx { quote!(ctx) } else { quote!(_) };
        let given = if arguments.is_empty() {
            quote!(_)
        } else {
            quote!(arguments)
        };
        let name = self.ident.unraw().to_string();
        let definition = self.options.definition(&name, self.description.as_deref());
        let cfgs = &self.cfgs;
        // What is wrong with the result is said of the closure: it stands where the result does.
        let handler = quote_spanned! {self.result=>
            move |#ctx: ::outlive::server::Ctx, #given: #ty| {
                #share
                async move { #callee(#this #(#passed),*) #wait }
            }
        };
        quote! {
            #(#cfgs)*
            let server = {
                #fields
                #keep
                ::outlive::server::Builder::tool_with(server, #definition, #handler)
            };
        }
    }

    fn arguments(&self) -> Vec<&Argument> {
        let arguments = self.inputs.iter().filter_map(|input| match input {
            Input::Argument(argument) => Some(&**argument),
            Input::Ctx { .. } => None,
        });
        arguments.collect()
    }
}

impl Input {
    fn of(input: &PatType, attributes: Vec<Attribute>) -> Result<Input> {
        if let Some(ctx) = Input::ctx(&input.ty)? {
            return Ok(ctx);
        }
        let Pat::Ident(name) = &*input.pat else {
            let sentence = "an argument of a tool has a plain name: `text: String`";
            return Err(Error::new(input.pat.span(), sentence));
        };
        if let Some(borrowed) = borrowed(&input.ty) {
            let sentence = "an argument of a tool is owned, since it is read from the call: write `String`, not `&str`";
            return Err(Error::new(borrowed, sentence));
        }
        Ok(Input::Argument(Box::new(Argument {
            attributes,
            ident: name.ident.clone(),
            ty: (*input.ty).clone(),
        })))
    }

    /// The context, by the name of its type.
    fn ctx(ty: &Type) -> Result<Option<Input>> {
        let (inner, reference) = match ty {
            Type::Reference(reference) => (&*reference.elem, Some(reference)),
            ty => (ty, None),
        };
        let Type::Path(path) = inner else {
            return Ok(None);
        };
        if path.path.segments.last().is_none_or(|it| it.ident != "Ctx") {
            return Ok(None);
        }
        if let Some(mutable) = reference.and_then(|it| it.mutability) {
            let sentence = "the context is shared: write `&Ctx`";
            return Err(Error::new(mutable.span(), sentence));
        }
        let borrowed = reference.is_some();
        Ok(Some(Input::Ctx { borrowed }))
    }
}

impl Argument {
    /// Whether it stands for all arguments, and nothing else is said of it.
    fn is_flat(&self) -> bool {
        let mut said = self
            .attributes
            .iter()
            .filter(|it| !it.path().is_ident("doc"));
        let flat = |it: &Attribute| match &it.meta {
            Meta::List(list) => list.tokens.to_string() == "flatten",
            _ => false,
        };
        said.next().is_some_and(flat) && said.next().is_none()
    }
}

/// The struct that arguments are read into.
fn structure(arguments: &[&Argument]) -> TokenStream {
    let fields = arguments.iter().map(|argument| {
        let Argument {
            attributes,
            ident,
            ty,
        } = argument;
        quote!(#(#attributes)* #ident: #ty)
    });
    quote! {
        #[derive(::outlive::serde::Deserialize, ::outlive::schemars::JsonSchema)]
        #[serde(crate = "::outlive::serde")]
        #[schemars(crate = "::outlive::schemars")]
        struct Arguments {
            #(#fields),*
        }
    }
}

/// The first reference in a type.
fn borrowed(ty: &Type) -> Option<Span> {
    match ty {
        Type::Reference(reference) => Some(reference.span()),
        Type::Paren(inner) => borrowed(&inner.elem),
        Type::Group(inner) => borrowed(&inner.elem),
        Type::Array(array) => borrowed(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(borrowed),
        Type::Path(path) => path.path.segments.iter().find_map(|segment| {
            let PathArguments::AngleBracketed(inner) = &segment.arguments else {
                return None;
            };
            inner.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => borrowed(ty),
                _ => None,
            })
        }),
        _ => None,
    }
}

/// Where the result stands, if it outlives the call.
fn owned_result(ty: &Type) -> Result<Span> {
    if let Type::Reference(reference) = ty
        && reference
            .lifetime
            .as_ref()
            .is_none_or(|it| it.ident != "static")
    {
        let sentence = "the result of a tool is owned, or `&'static str`: write `String`";
        return Err(Error::new(ty.span(), sentence));
    }
    Ok(ty.span())
}

/// What the doc comment says.
fn description(attributes: &[Attribute]) -> Result<Option<String>> {
    let mut lines = Vec::new();
    for attribute in attributes {
        let Meta::NameValue(doc) = &attribute.meta else {
            continue;
        };
        if !doc.path.is_ident("doc") {
            continue;
        }
        let Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) = &doc.value
        else {
            let sentence = "the description of a tool is a doc comment";
            return Err(Error::new(doc.value.span(), sentence));
        };
        // Each line of a `///` comment is one; an empty one is none to `lines`.
        for line in text.value().split('\n') {
            lines.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
        }
    }
    let text = lines.join("\n").trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}
