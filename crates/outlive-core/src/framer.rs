//! placeholder
use bytes::Bytes;
use crate::message::Id;
/// One line of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole line without its line end; never empty.
    Line(Bytes),
    /// A line longer than the limit, thrown away; what could be told about it in passing.
    TooLong(TooLong),
}
/// What is known of a line that was too long to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The value of its top-level `id`, if it had one that is a string or a number.
    pub id: Option<Id>,
    /// Whether it had a top-level `method`.
    pub has_method: bool,
    /// How many bytes it had.
    pub len: u64,
}
/// x
#[derive(Debug)]
pub struct Framer;
