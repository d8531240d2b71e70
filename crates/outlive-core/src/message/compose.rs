//! Messages of our own: written once, from parts that are JSON already.
//!
//! Where each member stands is known while it is written, so nothing of it is read afterwards. What stands inside of
//! `params` or `result` is looked up when somebody asks.

use bytes::{BufMut, BytesMut};
use serde_json::Value;

use super::head::Head;
use super::part::Part;
use super::scan::Span;
use super::{Id, Kind, Message, put_on_one_line};

/// A message being written.
struct Composer {
    line: BytesMut,
    id: Id,
    head: Head,
}

impl Composer {
    /// Begins with the version, and with the id unless that is empty.
    fn new(id_json: &[u8], room: usize) -> Composer {
        let mut composer = Composer {
            line: BytesMut::with_capacity(room + id_json.len() + 60),
            id: Id::read(id_json).unwrap_or(Id::Null),
            head: Head::default(),
        };
        composer.line.put_slice(b"{\"jsonrpc\":\"2.0\"");
        if !id_json.is_empty() {
            composer.head.id = composer.member("id", |line| line.put_slice(id_json));
        }
        composer
    }

    /// Adds a member. Tells where its value stands.
    fn member(&mut self, name: &str, write: impl FnOnce(&mut BytesMut)) -> Span {
        self.line.put_slice(b",\"");
        self.line.put_slice(name.as_bytes());
        self.line.put_slice(b"\":");
        let start = self.line.len();
        write(&mut self.line);
        Span::new(start, self.line.len() - start)
    }

    fn call(mut self, kind: Kind, method: &str, params: &[u8]) -> Message {
        let quoted = Value::from(method).to_string();
        if quoted.len() > method.len() + 2 {
            self.head.unescaped_method = Some(Box::new(method.into()));
        }
        self.head.method = self.member("method", |line| line.put_slice(quoted.as_bytes()));
        if !params.is_empty() {
            let whole = self.member("params", |line| put_on_one_line(line, params));
            self.head.part = Part::unseen(whole);
        }
        self.finish(kind)
    }

    fn finish(mut self, kind: Kind) -> Message {
        self.line.put_u8(b'}');
        self.head.kind = kind;
        Message {
            bytes: self.line.freeze(),
            id: self.id,
            head: self.head,
        }
    }
}

impl Message {
    /// A request. `params` is JSON, or empty if there are none.
    pub fn request(id_json: &[u8], method: &str, params: &[u8]) -> Message {
        let room = method.len() + params.len();
        Composer::new(id_json, room).call(Kind::Request, method, params)
    }

    /// A notification. `params` is JSON, or empty if there are none.
    pub fn notification(method: &str, params: &[u8]) -> Message {
        let room = method.len() + params.len();
        Composer::new(b"", room).call(Kind::Notification, method, params)
    }

    /// The response with this result, which is JSON.
    pub fn response(id_json: &[u8], result: &[u8]) -> Message {
        Message::response_with(id_json, result.len(), |line| put_on_one_line(line, result))
    }

    /// The response with the result that `write` appends, of about `room` bytes.
    pub(crate) fn response_with(
        id_json: &[u8],
        room: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> Message {
        let mut composer = Composer::new(id_json, room);
        let whole = composer.member("result", write);
        composer.head.part = Part::unseen(whole);
        composer.finish(Kind::Response)
    }

    /// The response with this error object, which is JSON. An empty `id_json` leaves the id out, as where a
    /// notification is refused.
    pub fn failure(id_json: &[u8], error: &[u8]) -> Message {
        let mut composer = Composer::new(id_json, error.len());
        let whole = composer.member("error", |line| put_on_one_line(line, error));
        composer.head.part = Part::unseen(whole);
        composer.head.is_error = true;
        composer.finish(Kind::Response)
    }
}
