//! placeholder
/// x
#[derive(Clone, Debug)]
pub struct Error;
