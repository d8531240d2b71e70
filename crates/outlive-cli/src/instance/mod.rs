//! This process as `outlive status` shows it, and what `outlive logs` keeps of it.
//!
//! # Theory
//!
//! A running `outlive` has a name, a socket in a folder that is the user's alone, and a log. Nothing is written while
//! calls pass: whoever connects to the socket is told how things stand at that moment, and the log has a line only
//! where something happened to a server. If a folder cannot be used, the session does without it: nobody's tools may
//! fail for want of a status.
//!
//! | file | what it is |
//! |---|---|
//! | `name` | the name, from what is served |
//! | `host` | for whom |
//! | `claim` | the name that nobody else has, and what tells a living instance from a dead one |

pub mod claim;
mod host;
pub mod name;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use outlive::{Gateway, Secrets};
use outlive_core::cause::CauseKind;
use outlive_core::meter::Meter;
use outlive_core::request::RequestEnd;
use outlive_core::session::Load;
use outlive_core::{Cause, Event, State};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::kept_log::KeptLog;
use crate::log::{dated, timestamp};
use crate::log_writer::LogWriter;
use crate::masks::Masks;
use crate::places;
use crate::settings::Settings;
use crate::system::{Accepting, Listener};
use claim::Claim;
use host::Host;

/// The last event in the log of an instance that was not killed.
pub const ENDED: &str = "ended";

/// Whoever asks has so long to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// After a connection could not be accepted (no descriptors are left), the next is waited for so long.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// This process, for those who look at it from outside.
#[derive(Debug)]
pub struct Instance {
    /// What is known from the start, secrets masked.
    identity: Value,
    claim: Mutex<Option<Claim>>,
    /// Why `outlive status` will not show it, if it will not.
    pub obstacle: Option<String>,
    kept: Option<LogWriter>,
    /// What it shows to nobody.
    pub masks: Masks,
    /// What the only session has to do. A gateway has a meter.
    counters: Counters,
    /// What it serves by now, secrets masked, if that is not what it served at the start.
    serves: Mutex<Option<String>>,
    /// What is wrong with its settings, if they could not be read again.
    problem: Mutex<Option<String>>,
    gateway: OnceLock<Gateway>,
    address: OnceLock<String>,
    servers: Mutex<Servers>,
}

/// What has happened to the servers.
#[derive(Debug, Default)]
struct Servers {
    /// By the number of the session; the only one of `run` has none.
    each: BTreeMap<Option<u64>, Server>,
    restarts: u64,
    last_loss: Option<Value>,
}

/// What has happened to one of them.
#[derive(Debug)]
struct Server {
    state: &'static str,
    since: SystemTime,
    generation: Option<u64>,
    software: Option<String>,
    /// Its name, where there are several.
    name: Option<String>,
    restarts: u64,
    last_loss: Option<Value>,
}

impl Instance {
    /// Makes this process known under a name of its own, as well as that can be done. `mode` is the command it was
    /// started as, `serves` what it was given as a server, secrets masked.
    pub fn begin(
        settings: &Settings,
        mode: &str,
        serves: String,
        secrets: Secrets,
    ) -> Arc<Instance> {
        let words = settings.command.iter().map(|word| word.to_string_lossy());
        let words: Vec<_> = words.collect();
        let words = secrets.mask_words(words.iter().map(|word| &**word));
        let wanted = settings.name.clone().unwrap_or_else(|| name::of(&words));
        let (claim, obstacle) = match register(&wanted) {
            Ok(claim) => (Some(claim), None),
            Err(why) => (None, Some(why)),
        };
        let name = claim.as_ref().map_or(wanted, |claim| claim.name.clone());
        let identity = identity(&name, mode, &serves, &secrets);
        if let Some(claim) = &claim {
            // Who cannot read it asks the socket.
            let _ = claim.describe(&identity.to_string());
        }
        let kept = match settings.no_keep_logs {
            true => None,
            false => LogWriter::new(KeptLog::new(places::log_folders(), &name)).ok(),
        };
        let instance = Instance {
            identity,
            claim: Mutex::new(claim),
            obstacle,
            kept,
            masks: secrets.into(),
            serves: Mutex::default(),
            problem: Mutex::default(),
            counters: Counters::default(),
            gateway: OnceLock::new(),
            address: OnceLock::new(),
            servers: Mutex::default(),
        };
        if mode == "run" {
            // It has its server from the start, before anything has happened to it.
            lock(&instance.servers).server(None);
        }
        instance.keep_begin();
        Arc::new(instance)
    }

    /// Takes note of what the only session has to do. Only its thread does, so there is nothing to be added up.
    pub fn note_load(&self, load: Load, failed: u64) {
        let Counters {
            in_flight,
            held,
            ended,
            failed: known,
        } = &self.counters;
        in_flight.store(load.in_flight as u64, Relaxed);
        held.store(load.held as u64, Relaxed);
        ended.store(load.ended, Relaxed);
        known.store(failed, Relaxed);
    }

    /// The servers are those of this gateway.
    pub fn set_gateway(&self, gateway: Gateway) {
        let _ = self.gateway.set(gateway);
    }

    /// It serves this from now on, secrets masked.
    pub fn set_serves(&self, serves: String) {
        *lock(&self.serves) = Some(serves);
    }

    /// Its settings have changed and cannot be used, for this reason, or can again.
    pub fn set_problem(&self, problem: Option<String>) {
        *lock(&self.problem) = problem;
    }

    /// Clients connect here.
    pub fn set_address(&self, address: &str) {
        let _ = self.address.set(address.to_owned());
    }

    /// Does the work, and answers meanwhile whoever asks how it stands.
    pub async fn answering<F: Future>(self: &Arc<Instance>, work: F) -> F::Output {
        let listener = lock(&self.claim).as_mut().and_then(|it| it.listener.take());
        let listener = listener.and_then(|it| Listener::accepting(it).ok());
        let answers = listener.map(|listener| tokio::spawn(answer(self.clone(), listener)));
        let result = work.await;
        if let Some(answers) = answers {
            answers.abort();
        }
        result
    }

    /// A server is one of several, and this is its name.
    pub fn name_server(&self, session: u64, name: &str) {
        lock(&self.servers).server(Some(session)).name = Some(name.to_owned());
    }

    /// Takes note of what happened to a server.
    pub fn observe(&self, session: Option<u64>, event: &Event) {
        let mut servers = lock(&self.servers);
        match event {
            Event::State(State::Closed) => drop(servers.each.remove(&session)),
            Event::State(state) => {
                let server = servers.server(session);
                if server.state != state.name() {
                    (server.state, server.since) = (state.name(), SystemTime::now());
                }
                if let State::Ready { generation } = state {
                    server.generation = Some(generation.number());
                }
            }
            Event::Connected { server, .. } => {
                let software = server.as_ref().map(ToString::to_string);
                servers.server(session).software = software;
            }
            Event::Lost {
                cause, in_flight, ..
            } if cause.cause_kind() != CauseKind::Closing => {
                let loss = json!({
                    "time": timestamp(SystemTime::now()),
                    "text": told(cause, *in_flight),
                    "cause": cause.to_json(),
                    "in_flight": in_flight,
                });
                let server = servers.server(session);
                server.restarts += 1;
                server.last_loss = Some(loss.clone());
                servers.restarts += 1;
                servers.last_loss = Some(loss);
            }
            _ => {}
        }
    }

    /// Whether events are kept for `outlive logs`.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Keeps an event: its data, and the sentence that a person reads.
    pub fn keep(&self, mut data: Value, sentence: &str) {
        if let Some(kept) = &self.kept {
            data["pid"] = json!(std::process::id());
            data["text"] = json!(sentence);
            kept.line(&self.masks.mask(&dated(&data, SystemTime::now())));
        }
    }

    /// It is over: says how in the log, waits until that is written, but not for ever, and gives the name back.
    pub fn ended(&self, how: Result<(&str, ExitCode), String>) -> Result<ExitCode, String> {
        let words = match &how {
            Ok((words, _)) => words,
            Err(why) => why.as_str(),
        };
        self.keep(
            json!({ "event": ENDED, "how": words }),
            &format!("ended: {words}"),
        );
        if let Some(kept) = &self.kept {
            kept.finish();
        }
        lock(&self.claim).take();
        how.map(|(_, code)| code)
    }

    fn keep_begin(&self) {
        let mut data = self.identity.clone();
        data["event"] = json!("began");
        let serves = self.identity["serves"].as_str().unwrap_or_default();
        let sentence = match self.identity["for"]["process"].as_str() {
            Some(host) => format!("began: {serves}, for {host}"),
            None => format!("began: {serves}"),
        };
        self.keep(data, &sentence);
    }

    /// How things stand, as JSON, secrets masked.
    fn report(&self) -> String {
        let mut report = self.identity.clone();
        let servers = lock(&self.servers);
        report["restarts"] = json!(servers.restarts);
        report["last_loss"] = json!(servers.last_loss);
        report["address"] = json!(self.address.get());
        report["problem"] = json!(*lock(&self.problem));
        if let Some(serves) = &*lock(&self.serves) {
            report["serves"] = json!(serves);
        }
        match self.gateway.get() {
            Some(gateway) => {
                Counters::of(gateway.meter()).describe(&mut report);
                report["servers"] = json!(listed(gateway, &servers));
                report["withheld"] = json!(withheld(gateway));
            }
            None => {
                self.counters.describe(&mut report);
                if let Some(server) = servers.each.get(&None) {
                    server.describe(&mut report);
                }
            }
        }
        drop(servers);
        self.masks.mask(&report.to_string())
    }
}

impl Servers {
    fn server(&mut self, session: Option<u64>) -> &mut Server {
        self.each.entry(session).or_insert_with(|| Server {
            state: "connecting",
            since: SystemTime::now(),
            generation: None,
            software: None,
            name: None,
            restarts: 0,
            last_loss: None,
        })
    }
}

impl Server {
    fn describe(&self, report: &mut Value) {
        report["state"] = json!(self.state);
        report["since"] = json!(timestamp(self.since));
        report["generation"] = json!(self.generation);
        report["server"] = json!(self.software);
    }
}

/// Registers the name in the first folder that can be used.
fn register(name: &str) -> Result<Claim, String> {
    let mut why = "there is no folder for it".to_owned();
    for folder in places::runtime_folders() {
        let shown = folder.display();
        let claim = places::make_private(&folder)
            .and_then(|()| Claim::take(&folder, name).map_err(|error| format!("{shown}: {error}")));
        match claim {
            Ok(claim) => return Ok(claim),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn identity(name: &str, mode: &str, serves: &str, secrets: &Secrets) -> Value {
    let folder = std::env::current_dir().ok();
    let folder = folder.map(|folder| secrets.mask(&folder.to_string_lossy()));
    let mut host = Host::find().map(|host| host.to_json());
    if let Some(process) = host.as_mut().and_then(|host| host.get_mut("process"))
        && let Some(words) = process.as_str()
    {
        *process = json!(secrets.mask(words));
    }
    json!({
        "name": name,
        "mode": mode,
        "serves": secrets.mask(serves),
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "started": timestamp(SystemTime::now()),
        "for": host,
        "directory": folder,
    })
}

/// A loss in a sentence. What was started stands beside it anyway.
fn told(cause: &Cause, in_flight: usize) -> String {
    let mut text = format!("{} {}", cause.subject(), cause.predicate());
    if in_flight > 0 {
        text += &format!(", {in_flight} in flight");
    }
    if let Some(last) = cause.stderr_tail.last() {
        text += &format!("; it last wrote to stderr: \"{}\"", last.trim());
    }
    text
}

/// What is counted, for a program and a person.
#[derive(Debug, Default)]
struct Counters {
    in_flight: AtomicU64,
    held: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    fn of(meter: &Meter) -> Counters {
        let (mut ended, mut failed) = (0, 0);
        for (_, end, count) in meter.requests() {
            ended += count;
            if matches!(end, RequestEnd::Failed(_)) {
                failed += count;
            }
        }
        Counters {
            in_flight: meter.in_flight().into(),
            held: meter.held().into(),
            ended: ended.into(),
            failed: failed.into(),
        }
    }

    fn describe(&self, report: &mut Value) {
        report["in_flight"] = json!(self.in_flight.load(Relaxed));
        report["held"] = json!(self.held.load(Relaxed));
        report["requests"] = json!({
            "ended": self.ended.load(Relaxed),
            "failed": self.failed.load(Relaxed),
        });
    }
}

/// The servers of a gateway, each with what has happened to it.
fn listed(gateway: &Gateway, servers: &Servers) -> Vec<Value> {
    let each = gateway.upstreams().into_iter().map(|upstream| {
        let mut data = json!({
            "upstream": upstream.number,
            "for": upstream.sharing.name(),
            "client": upstream.client,
            "clients": upstream.clients,
            "in_flight": upstream.in_flight,
            "state": upstream.state.name(),
        });
        if let Some(server) = servers.each.get(&Some(upstream.number)) {
            server.describe(&mut data);
            data["name"] = json!(server.name);
            data["restarts"] = json!(server.restarts);
            data["last_loss"] = json!(server.last_loss);
        }
        data
    });
    each.collect()
}

/// What is withheld of servers whose definitions are pinned, without the definitions.
fn withheld(gateway: &Gateway) -> Vec<Value> {
    let each = gateway.withheld().into_iter().map(|withheld| {
        json!({
            "server": withheld.name,
            "sentence": withheld.reason.to_string(),
            "definitions": withheld.differences.len(),
            "digest": withheld.digest,
        })
    });
    each.collect()
}

/// Tells each who connects how things stand.
async fn answer(instance: Arc<Instance>, listener: Accepting) {
    loop {
        match listener.accept().await {
            Ok(mut stream) => {
                let report = instance.report();
                let written = stream.write_all(report.as_bytes());
                // Who does not read it is not waited for.
                let _ = tokio::time::timeout(ANSWER_TIMEOUT, written).await;
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
