//! The messages of the benchmark: requests stamped out in batches, answers checked one by one.
//!
//! A driver that formats requests or parses answers would measure itself. Requests of one kind differ only in their
//! id, which has a fixed width, so a batch is laid out once and only its ids are written anew. Of an answer only the
//! id and the length are looked at: enough to know that every call was answered exactly once and carried its text.

use std::fmt;

/// How much of a batch is written at once, at most: what a pipe holds.
const BATCH_BYTES: usize = 64 * 1024;

/// Ids start here so that all have the same width.
pub const FIRST_ID: u64 = 1_000_000_000;
pub const ID_DIGITS: usize = 10;

/// The name of the tool at its server.
pub const ECHO: &str = "echo";

/// How far into an answer its id is looked for. Every contender writes it before the result.
const HEAD: usize = 64;

/// Text as tools return it most: source code, with an escape every 25 bytes and now and then a letter outside ASCII.
const CODE: &str = concat!(
    r#"def restock(shelf, orders):\n"#,
    r#"    \"\"\"Moves whatever arrived to its place; what is broken goes back, as agreed with the café.\"\"\"\n"#,
    r#"    for order in sorted(orders, key=lambda order: order.weight):\n"#,
    r#"        if order.broken or shelf.is_full(order.kind):\n"#,
    r#"            yield order.returned(reason=\"broken\")\n"#,
    r#"        else:\n"#,
    r#"            shelf.add(order.kind, order.quantity)\n"#,
);

/// So many bytes of it. Neither an escape nor a letter is cut in two; the end is filled up instead.
pub fn text(length: usize) -> String {
    let mut text = String::with_capacity(length);
    let mut code = CODE.chars().cycle();
    while let Some(letter) = code.next() {
        let escaped = (letter == '\\').then(|| code.next()).flatten();
        let size = letter.len_utf8() + escaped.map_or(0, char::len_utf8);
        if text.len() + size > length {
            break;
        }
        text.push(letter);
        text.extend(escaped);
    }
    text.extend(std::iter::repeat_n('.', length - text.len()));
    text
}

/// Calls of the `echo` tool with texts of one size, laid out one after the other.
pub struct Batch {
    bytes: Vec<u8>,
    message: usize,
    id_at: usize,
    text: usize,
}

impl Batch {
    /// Calls with a text of `text` bytes.
    pub fn new(text_bytes: usize) -> Batch {
        Batch::of(ECHO, text_bytes)
    }

    /// Calls of the echo tool where it has another name.
    pub fn of(tool: &str, text_bytes: usize) -> Batch {
        let head = "{\"jsonrpc\":\"2.0\",\"id\":";
        let message = format!(
            "{head}{FIRST_ID},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\
             \"arguments\":{{\"text\":\"{}\"}}}}}}\n",
            text(text_bytes)
        );
        let count = (BATCH_BYTES / message.len()).max(1);
        Batch {
            bytes: message.repeat(count).into_bytes(),
            message: message.len(),
            id_at: head.len(),
            text: text_bytes,
        }
    }

    /// How many calls can be stamped at once.
    pub fn capacity(&self) -> usize {
        self.bytes.len() / self.message
    }

    /// The bytes of `count` calls, the first of which is number `first` of its slice.
    pub fn stamp(&mut self, first: u64, count: usize) -> &[u8] {
        for (index, message) in self.bytes.chunks_mut(self.message).take(count).enumerate() {
            let mut rest = FIRST_ID + first + index as u64;
            for digit in message[self.id_at..self.id_at + ID_DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        &self.bytes[..count * self.message]
    }

    /// The bytes stamped last, for a write that was cut short.
    pub fn stamped(&self, count: usize) -> &[u8] {
        &self.bytes[..count * self.message]
    }

    /// The size of the texts.
    pub fn text_bytes(&self) -> usize {
        self.text
    }
}

/// What is wrong with an answer.
#[derive(Debug)]
pub enum Wrong {
    /// No call in flight has this id.
    Unasked(u64),
    /// The answer is shorter than the text it should carry.
    Short(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Unasked(id) => write!(out, "call {id} was answered twice or never made"),
            Wrong::Short(head) => write!(out, "an answer lacks its text: {head}"),
        }
    }
}

/// The answers of one slice, found in the bytes as they come.
pub struct Answers {
    text: usize,
    head: Vec<u8>,
    length: usize,
    /// By number of the call: answered or not.
    answered: Vec<bool>,
    count: u64,
}

impl Answers {
    /// No answers yet to the calls of `batch`.
    pub fn to(batch: &Batch) -> Answers {
        Answers {
            text: batch.text_bytes(),
            head: Vec::with_capacity(HEAD),
            length: 0,
            answered: Vec::new(),
            count: 0,
        }
    }

    /// How many calls have been answered.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes bytes as they were read. `sent` calls have been made so far.
    pub fn take(&mut self, mut bytes: &[u8], sent: u64) -> Result<(), Wrong> {
        self.answered.resize(sent as usize, false);
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            self.part(&bytes[..at]);
            self.line()?;
            self.head.clear();
            self.length = 0;
            bytes = &bytes[at + 1..];
        }
        self.part(bytes);
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) {
        let wanted = (HEAD - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..wanted]);
        self.length += bytes.len();
    }

    /// Settles the call that a whole line answers. A line without an id is a notification.
    fn line(&mut self) -> Result<(), Wrong> {
        let Some(id) = id(&self.head) else {
            return Ok(());
        };
        let number = id.wrapping_sub(FIRST_ID) as usize;
        match self.answered.get_mut(number) {
            Some(answered @ false) => *answered = true,
            _ => return Err(Wrong::Unasked(id)),
        }
        if self.length < self.text {
            return Err(Wrong::Short(
                String::from_utf8_lossy(&self.head).into_owned(),
            ));
        }
        self.count += 1;
        Ok(())
    }
}

/// The id in the first bytes of a message.
fn id(head: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"id\":";
    let at = memchr::memmem::find(head, KEY)? + KEY.len();
    let digits = head[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&head[at..at + digits])
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_texts_of_the_size_asked_for_and_ids_in_a_row() {
        let mut batch = Batch::new(1000);
        let lines = String::from_utf8(batch.stamp(41, 3).to_vec()).unwrap();
        let ids: Vec<_> = lines
            .lines()
            .map(|line| id(line.as_bytes()).unwrap() - FIRST_ID)
            .collect();
        assert_eq!(ids, [41, 42, 43]);
        let line = lines.lines().next().unwrap();
        let from = line.find("text\":\"").unwrap() + 7;
        assert_eq!(line.len() - from - "\"}}}".len(), 1000);
    }

    #[test]
    fn answers_are_found_however_the_bytes_are_cut() {
        let batch = Batch::new(8);
        let bytes = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\
            {\"jsonrpc\":\"2.0\",\"id\":1000000001,\"result\":\"12345678\"}\n\
            {\"jsonrpc\":\"2.0\",\"id\":1000000000,\"result\":\"12345678\"}\n";
        for cut in 0..bytes.len() {
            let mut answers = Answers::to(&batch);
            answers.take(&bytes[..cut], 2).unwrap();
            answers.take(&bytes[cut..], 2).unwrap();
            assert_eq!(answers.count(), 2, "cut at {cut}");
        }
    }

    #[test]
    fn a_second_answer_and_an_empty_one_are_refused() {
        let answer = b"{\"jsonrpc\":\"2.0\",\"id\":1000000000,\"result\":\"12345678\"}\n";
        let mut answers = Answers::to(&Batch::new(8));
        answers.take(answer, 1).unwrap();
        assert!(matches!(answers.take(answer, 1), Err(Wrong::Unasked(_))));
        let mut answers = Answers::to(&Batch::new(1000));
        assert!(matches!(answers.take(answer, 1), Err(Wrong::Short(_))));
    }
}
