//! Lists the public items of a crate, one on a line, sorted.
//!
//! usage: outlive-api FILE: what rustdoc has written of the crate as JSON.

use std::env;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("usage: outlive-api FILE")?;
    let items = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .sorted(true)
        .build()?;
    print!("{items}");
    Ok(())
}
