//! What a scripted server answers at once.

use serde_json::Value;

/// A whole response.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    /// A status and nothing else.
    pub fn status(status: u16) -> Answer {
        Answer {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// One message.
    pub fn json(status: u16, message: &Value) -> Answer {
        Answer::text(status, "application/json", &message.to_string())
    }

    /// A text of some kind.
    pub fn text(status: u16, kind: &str, text: &str) -> Answer {
        Answer {
            status,
            headers: vec![("Content-Type", kind.to_owned())],
            body: text.into(),
        }
    }

    /// With one more header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// What is sent; `stays` if the connection is used again.
    pub fn bytes(&self, stays: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !stays {
            head.push_str("Connection: close\r\n");
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        [head.as_bytes(), &self.body].concat()
    }

    /// As it stands in the journal.
    pub fn words(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        format!("{} {body}", self.status).trim_end().to_owned()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "-",
    }
}
