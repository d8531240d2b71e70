//! What the server does with HTTP requests.

use bytes::Bytes;
use outlive_core::http_upstream::{Attempt, Failure, Head, Input, Location, Transport};
use outlive_core::login::LoginStatus;
use outlive_core::policy::Retry;
use outlive_core::{Input as SessionInput, LinkInput, Message, Time};
use serde_json::{Value, json};

use super::{Broken, World, broken};
use crate::schedule::{Reply, Talk};

impl World {
    pub(super) fn write(&mut self, link: usize, attempt: Attempt) -> Result<(), Broken> {
        if let Some(flight) = self.links[link].flights.get_mut(&attempt) {
            flight.written = true;
        }
        self.http(link, Input::Written(attempt))
    }

    /// The server has executed what is in this POST.
    pub(super) fn execute(&mut self, message: &Message) -> Result<(), Broken> {
        if !message.is("tools/call") {
            return Ok(());
        }
        let params: Value =
            serde_json::from_slice(message.params().unwrap_or_default()).unwrap_or_default();
        let Some(call) = params["arguments"]["n"]
            .as_i64()
            .and_then(|n| self.calls.get_mut(&n))
        else {
            return Ok(());
        };
        call.executed += 1;
        if call.told {
            return broken(4, format!("{params} is executed, and was answered before"));
        }
        if call.executed > 1 {
            self.seen.executed_twice += 1;
        }
        if call.executed > 1 && (!call.safe || self.policy == Retry::Never) {
            return broken(4, format!("{params} was executed twice"));
        }
        Ok(())
    }

    pub(super) fn result(&self, message: &Message) -> Value {
        match message.method() {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
            }
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
            }
            "tools/list" => json!({"tools": [
                {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
                {"name": "act", "inputSchema": {"type": "object"}},
            ]}),
            "tools/call" => json!({"content": []}),
            _ => json!({}),
        }
    }

    pub(super) fn answer_to(&self, message: &Message) -> String {
        let id: Value = serde_json::from_slice(message.id_json()).unwrap_or_default();
        json!({"jsonrpc": "2.0", "id": id, "result": self.result(message)}).to_string()
    }

    pub(super) fn reply(
        &mut self,
        link: usize,
        attempt: Attempt,
        reply: Reply,
    ) -> Result<(), Broken> {
        let flight = self.links[link].flights[&attempt].clone();
        let message = flight.message.clone().expect("a POST");
        self.say(format!(
            "{}: {attempt:?} {} {reply:?}",
            link,
            message.method()
        ));
        if reply == Reply::Absent {
            return self.end(link, attempt, Some(Failure::Unsent("nobody".into())));
        }
        if let Reply::Break(executed) = reply {
            if executed {
                self.execute(&message)?;
            }
            return self.end(link, attempt, Some(Failure::Broken("it broke".into())));
        }
        if !flight.written {
            self.write(link, attempt)?;
        }
        // The server's own rules come first.
        let reply = match reply {
            _ if flight.turn < self.wanted && self.login => Reply::Refuse(401),
            _ if flight.in_session && !self.links[link].known => Reply::Refuse(404),
            Reply::Mismatch if flight.mirrored == self.tools => Reply::Answer,
            Reply::Refuse(404) if !flight.in_session => Reply::Answer,
            // Some servers refuse a transport they do not know; this one does not know the newer one.
            Reply::Refuse(400) if message.is("initialize") => Reply::Refuse(405),
            other => other,
        };
        let request = message.id().is_some() && message.method() != "";
        let mut head = Head {
            status: 200,
            turn: flight.turn,
            mirrored: flight.mirrored,
            ..Head::default()
        };
        let mut body: Option<String> = None;
        match reply {
            Reply::Answer if request => {
                self.execute(&message)?;
                head.names_session = message.is("initialize");
                body = Some(self.answer_to(&message));
            }
            Reply::Answer => head.status = 202,
            Reply::Stream(ids) if request => {
                self.execute(&message)?;
                head.names_session = message.is("initialize");
                head.stream = true;
                self.seen.streams += 1;
                if let Some(flight) = self.links[link].flights.get_mut(&attempt) {
                    flight.stream = true;
                    flight.ids = ids;
                }
            }
            Reply::Stream(_) | Reply::Junk if !request => head.status = 202,
            Reply::Junk => {
                self.execute(&message)?;
                body = Some("what?".into());
            }
            Reply::Refuse(status) | Reply::Mumble(status) => {
                head.status = status;
                head.authenticate = (status == 401).then(|| "Bearer".into());
                body = Some("no".into());
            }
            Reply::Perhaps(status, executed) => {
                if executed {
                    self.execute(&message)?;
                }
                head.status = status;
                body = Some("no".into());
            }
            Reply::Move(status) => {
                if status == 302 {
                    self.execute(&message)?;
                }
                head.status = status;
                self.seen.redirects += 1;
                head.location = Some(Location {
                    to: "http://here/again".into(),
                    other_origin: None,
                });
            }
            Reply::Elsewhere => {
                head.status = 307;
                head.location = Some(Location {
                    to: "http://there/".into(),
                    other_origin: Some("http://there".into()),
                });
            }
            Reply::Mismatch => {
                head.status = 400;
                body = Some(
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"headers"}}"#
                        .into(),
                );
            }
            Reply::Stream(_) | Reply::Break(_) | Reply::Absent => {}
        }
        if let Some(flight) = self.links[link].flights.get_mut(&attempt) {
            flight.begun = true;
        }
        let stream = head.stream;
        self.http(link, Input::Response(attempt, head))?;
        if let Some(body) = body {
            self.http(link, Input::Chunk(attempt, Bytes::from(body)))?;
        }
        // The first event tells where to go on.
        if reply == Reply::Stream(true) && stream {
            let primer = format!(
                "id: {}\ndata:\n\n",
                String::from_utf8_lossy(message.bytes())
            );
            self.http(link, Input::Chunk(attempt, primer.into()))?;
        }
        match stream || matches!(reply, Reply::Mumble(_)) {
            true => Ok(()),
            false => self.end(link, attempt, None),
        }
    }

    /// A response ends.
    pub(super) fn end(
        &mut self,
        link: usize,
        attempt: Attempt,
        failure: Option<Failure>,
    ) -> Result<(), Broken> {
        if self.links[link].flights.remove(&attempt).is_none() {
            return Ok(());
        }
        if matches!(failure, Some(Failure::Broken(_))) {
            self.links[link].broke = Some(self.now);
        }
        self.links[link].dead.insert(attempt);
        self.http(
            link,
            match failure {
                None => Input::End(attempt),
                Some(failure) => Input::Failed(attempt, failure),
            },
        )
    }

    pub(super) fn get(
        &mut self,
        link: usize,
        attempt: Attempt,
        status: Option<u16>,
    ) -> Result<(), Broken> {
        self.say(format!("{link}: GET {attempt:?} {status:?}"));
        let flight = self.links[link].flights.get_mut(&attempt).expect("a GET");
        flight.begun = true;
        flight.ids = true;
        let turn = flight.turn;
        let status = match status {
            _ if turn < self.wanted && self.login => 401,
            None => 200,
            Some(status) => status,
        };
        let stream = status == 200;
        flight.stream = stream;
        if flight.cursor.is_some() && stream {
            self.seen.resumed += 1;
        }
        let head = Head {
            status,
            stream,
            turn,
            location: (status == 307).then(|| Location {
                to: "http://here/stream".into(),
                other_origin: None,
            }),
            ..Head::default()
        };
        self.http(link, Input::Response(attempt, head))?;
        if !stream {
            return self.end(link, attempt, None);
        }
        if self.known.transport == Some(Transport::Sse) {
            self.seen.channels += 1;
        }
        if self.links[link].flights.contains_key(&attempt) && self.is_channel(link) {
            let endpoint = "event: endpoint\ndata: /messages\n\n";
            return self.http(link, Input::Chunk(attempt, endpoint.into()));
        }
        Ok(())
    }

    /// Whether the stream of this link is that of an HTTP+SSE server.
    pub(super) fn is_channel(&self, link: usize) -> bool {
        let link = &self.links[link];
        !link.named && self.known.transport != Some(Transport::Streamable)
    }

    pub(super) fn talk(&mut self, link: usize, attempt: Attempt, talk: Talk) -> Result<(), Broken> {
        self.say(format!("{link}: {attempt:?} {talk:?}"));
        let flight = self.links[link].flights[&attempt].clone();
        // Whose stream it is: of a request, its rest, or nobody's.
        let message = flight.message.clone().or_else(|| {
            let cursor = flight.cursor.as_ref()?;
            Message::read(cursor.clone().into()).ok()
        });
        let event = |data: &str| match (&message, flight.ids) {
            // The whole request is its cursor: the server knows what it has to go on with.
            (Some(message), true) => {
                format!(
                    "id: {}\ndata: {data}\n\n",
                    String::from_utf8_lossy(message.bytes())
                )
            }
            _ => format!("data: {data}\n\n"),
        };
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        let text = match talk {
            Talk::Answer | Talk::AnswerAndStay => match &message {
                Some(message) => event(&self.answer_to(message)),
                None => event(note),
            },
            Talk::Notify => event(note),
            Talk::Comment => ": here\n\n".into(),
            Talk::End | Talk::Break => String::new(),
        };
        if matches!(talk, Talk::Answer | Talk::AnswerAndStay)
            && let Some(flight) = self.links[link].flights.get_mut(&attempt)
        {
            flight.answered = true;
        }
        if !text.is_empty() {
            self.http(link, Input::Chunk(attempt, text.into()))?;
        }
        match talk {
            Talk::Answer if message.is_some() => self.end(link, attempt, None),
            Talk::End => {
                if message.is_some() && !flight.answered {
                    self.links[link].broke = Some(self.now);
                }
                self.end(link, attempt, None)
            }
            Talk::Break => self.end(link, attempt, Some(Failure::Broken("it broke".into()))),
            _ => Ok(()),
        }
    }

    pub(super) fn log_in(&mut self, found: bool) -> Result<(), Broken> {
        for at in 0..self.links.len() {
            let Some(turn) = self.links[at].asked_for_login.take() else {
                continue;
            };
            self.say(format!("{at}: others than {turn}: {found}"));
            // Somebody else may have got others meanwhile.
            if found && turn == self.turn {
                self.turn += 1;
            }
            let found = found || turn < self.turn;
            let status = match found {
                true => LoginStatus::Granted,
                false => LoginStatus::Failed,
            };
            let generation = self.links[at].generation;
            self.session(SessionInput::Link(generation, LinkInput::Login(status)))?;
            self.http(at, Input::Authenticated(found))?;
        }
        Ok(())
    }

    /// Something comes from a request that was given up, or is over: nobody hears it.
    pub(super) fn stale(&mut self, n: u8) -> Result<(), Broken> {
        for at in 0..self.links.len() {
            let Some(attempt) = self.links[at].dead.iter().nth_back(n.into()).copied() else {
                continue;
            };
            let head = Head {
                status: 200,
                ..Head::default()
            };
            for input in [
                Input::Written(attempt),
                Input::Response(attempt, head),
                Input::Chunk(attempt, "{}".into()),
                Input::End(attempt),
            ] {
                let link = &mut self.links[at];
                if link
                    .http
                    .deadline()
                    .is_some_and(|due| due <= Time::after(self.now - link.begun))
                {
                    continue;
                }
                link.http
                    .handle(Time::after(self.now - link.begun), input.clone());
                if let Some(output) = link.http.poll() {
                    return broken(
                        6,
                        format!("{input:?} of an HTTP request that is over: {output:?}"),
                    );
                }
            }
        }
        Ok(())
    }
}
