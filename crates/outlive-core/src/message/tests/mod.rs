//! What is read of a line, by example and against a parser.

use bytes::Bytes;

use super::*;

mod batch;
mod compose;
mod defect;
mod envelope;
mod head;
mod parser;
mod rewrite;

fn read(line: &str) -> Message {
    Message::read(Bytes::copy_from_slice(line.as_bytes()))
        .unwrap_or_else(|d| panic!("{line}: {d:?}"))
}

fn refuse(line: impl AsRef<[u8]>) -> Defect {
    match Message::read(Bytes::copy_from_slice(line.as_ref())) {
        Ok(message) => panic!("accepted: {message:?}"),
        Err(defect) => *defect,
    }
}
