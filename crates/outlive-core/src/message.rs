//! placeholder
/// x
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id;
/// x
#[derive(Clone, Debug)]
pub struct Message;
