//! outlive
fn main() {}
